"""The table of scalar functions: one entry each, in files by topic.

An entry says all that numjit knows of one function: its names in Python, ``numjit.math`` and C++, its domain
and result, how it is emitted and written over torch tensors, and its derivative. The files' entries meet in
`numjit.rules.table`.
"""
