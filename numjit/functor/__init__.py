"""Functors: what the user wrote, read and given types, in either language."""
