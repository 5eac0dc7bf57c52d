"""What is read from a Python function's bytecode: names, returns, statements that no functor has."""

from __future__ import annotations

import pytest

from numjit.functor.bytecode import count_returned, referenced_names, unsupported_statement


def code(text):
    """Return the code of a function's text."""
    return compile(text, "functor", "exec").co_consts[0]


def test_referenced_names():
    text = "def f(x):\n    def g(y): return math.sin(y) + LIMIT\n    return g(x) + tools.part.value(x)"
    found = referenced_names(code(text))
    assert found == [("tools", "part", "value"), ("math", "sin"), ("LIMIT",)]


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("return x", 1),
        ("return x, x", 2),
        ("r = (x, x, x)\n    return r", 3),
        ("return 1, 2", 2),
        ("if x > 0:\n        return x, 1\n    return x, 2", 2),
        ("return helper(x)", None),
        ("return x + 1", 1),
    ],
)
def test_count_returned(body, count):
    assert count_returned(code(f"def f(x):\n    {body}\n")) == count


@pytest.mark.parametrize(
    ("body", "line", "what"),
    [
        ("y = x\n    try:\n        return y\n    except Exception:\n        return x", 3, "try"),
        ("y = x\n    z = [y, x]\n    return z[0]", 3, "list"),
        ("return [x for _ in range(3)]", 2, "list"),
        ("return 'text'", 2, "string"),
        ("return f'{x}'", 2, "string"),
        ("yield x", 1, "generator"),
        ("return sum(x for _ in range(3))", 2, "generator"),
        ("with x:\n        return x", 2, "with"),
        ("import math\n    return math.sin(x)", 2, "import"),
        ("global SCALE\n    SCALE = 1\n    return x", 3, "global"),
        ("y = x\n    assert y > 0\n    return y", 3, "assert"),
        ("if x > 0:\n        raise ValueError\n    return x", 3, "raise"),
        ("return {1: x}[1]", 2, "dict"),
        ("def g(y, k=2): return y * k\n    return g(x, k=3)", 3, "keyword argument of an inner function"),
        ("return (lambda y, k=2: y * k)(x, k=3)", 2, "keyword argument of an inner function"),
        ("def g(y, *, k=2): return y * k\n    return g(x)", 2, "keyword-only"),
    ],
)
def test_unsupported_statements(body, line, what):
    found = unsupported_statement(code(f"def f(x):\n    {body}\n"))
    assert found is not None
    assert found[0] == line
    assert what in found[1]


@pytest.mark.parametrize(
    "body",
    [
        '"""Docstring."""\n    return x',
        "def g(y, k=2): return y * k\n    return g(x, 3) + max(x, g(x))",
        "k = 2\n    def g(y): return y * k\n    return g(x)",
        "s = 0\n    for c in (1.0, 2.0):\n        s = s * x + c\n    return s",
        "return (lambda t: t + 1)(x)",
        "while x > 1 and not x < 0:\n        x = x / 2\n    return x if x else 0.5",
    ],
)
def test_supported_statements(body):
    assert unsupported_statement(code(f"def f(x):\n    {body}\n")) is None
