"""A fuzzer: one random tree becomes a Python functor, C++ text and a torch computation, and all have to agree.

``python -m tests.fuzz --help``; `docs/reliability.md` says what it has run.
"""
