"""Scalar functions, each described once for Python's and C++'s functors."""
