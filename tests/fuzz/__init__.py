"""A fuzzer: one random tree becomes a Python functor, C++ text and a torch computation; all must agree.

``python -m tests.fuzz --help``; `docs/reliability.md` says what it has run.
"""
