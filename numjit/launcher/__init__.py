"""The compiled warm path: calls made before, matched and launched by machine code in place of Python's."""
