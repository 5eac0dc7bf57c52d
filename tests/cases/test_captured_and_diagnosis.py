"""What a Python functor cannot do: the error names functor and line, and says what to write instead."""

from __future__ import annotations

import collections
import enum
import functools
import linecache
import math
import os
import random
import re
import sys
import time
import types
import uuid

import numpy as np
import pytest
import torch

import numjit
from numjit import dtypes
from numjit.errors import CompilationError, FunctorError, NumjitError
from numjit.functor.python import PythonFunctor
from numjit.functor.signature import ArgumentType
from numjit.semantics import Category
from tests.cases import run_python

#: What the bodies below name.
NAMED = (functools, math, os, random, sys, time, uuid, np)
F32 = (ArgumentType(dtypes.float32, Category.DIM),)


class Colour(enum.Enum):
    RED = 1


class Klass:
    ALPHA = 2.0


Pair = collections.namedtuple("Pair", "a b", defaults=(1.0,))
word, fixed, nothing = "word", frozenset({1.0}), None
settings = types.ModuleType("settings")
settings.NAME, settings.ON, settings.N = "name", True, 3
FLAG, OFF, N, NONE, TABLE, MODE = True, False, 3, 0, (1.0, 2.0), 2


def no_value(x):
    if x > 0:
        y = x
    return y


def over(t, x):
    for c in t:
        y = c * x
    return y


def named(body):
    """Return a function with a body of given text, whose first line is line 2."""
    text = f"def f(x, *, n=2):\n    {body}\n"
    file = f"<functor of {body!r}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope = dict(globals())
    exec(compile(text, file, "exec"), scope)
    return scope["f"]


#: Statement or expression, what is said of it, what to do, and the line (counted from 2).
ROWS = [
    # statements
    ("try:\n        return x\n    except ValueError:\n        return 0.0", "contains try", "condition", 2),
    ("try:\n        y = x\n    finally:\n        y = 1.0\n    return y", "contains try", "condition", 2),
    ("raise ValueError('negative')", "contains raise", "before the call", 2),
    ("raise ValueError(f'{x}')", "contains raise", "before the call", 2),
    ("y = x\n    if y < 0:\n        raise ValueError\n    return y", "contains raise", "NaN", 4),
    ("assert x > 0\n    return x", "contains assert", "before the call", 2),
    ("assert x > 0, 'positive'\n    return x", "contains assert", "NaN", 2),
    ("with torch.no_grad():\n        return x", "contains with", "around the call", 2),
    ("import math\n    return math.exp(x)", "contains an import", "outside", 2),
    ("global Q\n    Q = 1\n    return x", "assignment to a global", "result", 3),
    ("k = 1\n    def g():\n        nonlocal k\n        k = 2\n    return x", "nonlocal", "return", 5),
    ("y = x\n    del y\n    return x", "contains del", "leave it out", 3),
    ("class Z: pass\n    return x", "contains a class", "outside", 2),
    ("async def g(): pass\n    return x", "an async function", "without async", 2),
    ("yield x", "a generator", "tuple of results", 1),
    ("x.y = 1\n    return x", "assignment to an attribute", "variable", 2),
    ("x[0] = 1\n    return x", "assignment to an item", "new tuple", 2),
    ("return f(x)", "calls itself", "use a loop", 2),
    ("pass", "does not return a value", "add a return", 1),
    ("return x if x else None", "does not return a value", "add a return", 1),
    # what is not a number
    ("return [x, x][0]", "contains a list", "use a tuple", 2),
    ("return [v for v in (x, x)][0]", "list comprehension|contains a list", "use a", 2),
    ("return sum({v for v in (x, x)})", "set comprehension|contains a set", "use a", 2),
    ("return sum(v for v in (x, x))", "contains a generator", "use a loop", 2),
    ("return {x}", "contains a set", "use a tuple", 2),
    ("return x in {1.0, 2.0}", "contains a set", "use a tuple", 2),
    ("return {'a': x}['a']", "contains a dict", "tuple", 2),
    ("return {1: x, **{2: x}}[1]", "contains a dict", "tuple", 2),
    ("return f'{x}'", "contains a string", "numbers and tuples", 2),
    ("return 'a'", "contains a string", "numbers and tuples", 2),
    ("return b'a'", "contains a string", "numbers and tuples", 2),
    ("return x if word == settings.NAME else 2 * word", "string", "IntEnum", 2),
    ("return x * len(word)", "uses a string", "IntEnum", 2),
    ("return x * len(settings.NAME)", "uses a string", "IntEnum", 2),
    ("return x if x in fixed else 0", "'fixed', a frozenset", "tuples of numbers", 2),
    ("return x * nothing", "None cannot be combined", "use a number", 2),
    ("return x * Colour.RED", "member of an enumeration cannot", r"\.value", 2),
    ("return x * Colour(1).value", "calls the enumeration Colour", r"Colour\.NAME", 2),
    ("return x + (1,)", "a tuple cannot be combined", r"t\[0\]", 2),
    ("return ...", r"returns \.\.\.", "return a number", 2),
    ("return math", "returns a module", "return a number", 2),
    ("return math.exp", "returns a function", "return numbers", 2),
    ("return range(3)", "returns a range", "return a number", 2),
    ("y = 2 * x\n    return (y, (x, x))", "a tuple inside a tuple", "flat tuple", 3),
    ("return lambda: x", "inner function that uses 'x' is handed on", "parameter", 2),
    ("if x > 0:\n        return x, x\n    return x", "returns a tuple or a float32", "as many", 3),
    ("return (x, x) if x > 0 else x", "a tuple on one path and a float32 on another", "one kind", 2),
    ("return Pair(x).b", "fields left out", "every field", 2),
    ("return Pair(x, x)._replace(a=x).a", "has no '_replace'", "numbers", 2),
    # operators and items
    ("return x @ x", "multiplies matrices", r"write \*", 2),
    ("return x[0]", "indexes a number", r"numjit\.raw", 2),
    ("t = (x, x)\n    return t[0, 1]", "indexed by one whole number", r"t\[i\]\[j\]", 3),
    ("return (y := x + 1) * y", ":= assigns", "a statement of its own", 2),
    ("return x is x", "`is`", "==", 2),
    ("return x(1)", "calls a number", r"write \*", 2),
    ("for v in x:\n        pass\n    return x", "takes a float32 apart", r"range\(n\)", 2),
    ("a, b = x\n    return a", "a float32", "tuple", 2),
    ("a, b, c = (x, x)\n    return a", "a tuple of 2 to 3 names", "as many", 2),
    ("return x << 1", "torch refuses it", "integers", 2),
    # functions
    ("return x if isinstance(x, float) else 0.0", r"isinstance\(\) is not", "dtype", 2),
    ("breakpoint()\n    return x", r"breakpoint\(\) is not", "undecorated", 2),
    ("print('x is', x)\n    return x", r"print\(\) is not", "result", 2),
    ("return any((x > 0, x < 1))", r"any\(\) is not", "a or b", 2),
    ("return all((x > 0, x < 1))", r"all\(\) is not", "a and b", 2),
    ("return sorted((x, 1.0))[0]", r"sorted\(\) is not", r"min\(\)", 2),
    ("return list((x, x))[0]", r"list\(\) is not", "use a tuple", 2),
    ("return set((x,))", r"set\(\) is not", "use a tuple", 2),
    ("return dict(a=x)['a']", r"dict\(\) is not", "tuple", 2),
    ("return map(abs, (x,))", r"map\(\) is not", "loop", 2),
    ("return str(x)", r"str\(\) is not", "numbers", 2),
    ("return hash(x)", r"hash\(\) is not", "numbers", 2),
    ("return type(x)(1)", r"type\(\) is not", "dtype", 2),
    ("return getattr(x, 'real')", r"getattr\(\) is not", "name.attribute", 2),
    ("return eval('x')", r"eval\(\) is not", "expression itself", 2),
    ("return open('f')", r"open\(\) is not", "operand", 2),
    ("for i in reversed((1, 2)): x = x * i\n    return x", r"reversed\(\) is not", r"range\(n - 1", 2),
    ("return functools.reduce(max, (x, x))", r"functools\.reduce\(\)", "use a loop", 2),
    ("return math.prod((x, x))", r"math\.prod is not supported", "operators", 2),
    ("return math.nothing(x)", "module math has no attribute 'nothing'", "correct the name", 2),
    ("return undefined(x)", "name 'undefined' is not defined", "define it", 2),
    ("return len(x)", r"len\(\) is for tuples", "leave it out", 2),
    ("return max(x, key=abs)", r"max\(\) takes numbers", "pass those", 2),
    ("return min()", r"min\(\) takes numbers", "pass those", 2),
    ("return math.exp(x, x)", "does not take 2 arguments", "as many", 2),
    ("return x * math.exp(y=x)", "by name", "by position", 2),
    ("return x.exp()", "no attribute 'exp'", "math functions", 2),
    ("return x.shape[0]", "no attribute 'shape'", "before the call", 2),
    ("return np.exp(x)", r"numpy\.exp works on whole arrays", "numjit.math", 2),
    ("return torch.exp(x)", r"torch\.exp works on whole arrays", "numjit.math", 2),
    ("return torch.nn.functional.relu(x)", r"relu works on whole arrays", "numjit.math", 2),
    ("return np.float32(x)", r"numpy\.float32\(\) makes", r"annotate", 2),
    ("return np.int64(3) * x", r"numpy\.int64\(\) makes", r"write the number", 2),
    ("return numjit.float32(x)", r"numjit\.float32 is not for", "annotating", 2),
    ("return (lambda *a: a[0])(x)", "star parameter", "name each", 2),
    ("def g(a, b=[]): return a\n    return g(x)", "contains a list", "tuple", 2),
    ("def g(a, *, b=1): return a\n    return g(x)", "keyword-only", r"`\*`", 2),
    ("return (lambda a, b: a)(*(x, x))", "with a star", "one by one", 2),
    # what is outside of the functor
    ("return x * random.random()", r"random\.random\(\) draws", "as an operand", 2),
    ("return x * random.uniform(0, 1)", r"random\.uniform\(\) draws", "as an operand", 2),
    ("return x * random.gauss(0, 1)", r"random\.gauss\(\) draws", "as an operand", 2),
    ("return x * np.random.random()", r"numpy\.random\.random\(\) draws", "as an operand", 2),
    ("return x * np.random.normal()", r"numpy\.random\.normal\(\) draws", "as an operand", 2),
    ("return x * torch.rand(1)", r"torch\.rand\(\) draws", "as an operand", 2),
    ("return x * torch.bernoulli(x)", r"torch\.bernoulli\(\) draws", "as an operand", 2),
    ("return x * uuid.uuid4().int", r"uuid\.uuid4\(\) draws", "as an operand", 2),
    ("return x * time.time()", r"time\.time\(\) reads a clock", "as a scalar", 2),
    ("return x * time.perf_counter()", "reads a clock", "as a scalar", 2),
    ("return x * os.getpid()", r"os\.getpid\(\) depends", "before", 2),
    ("return x * sys.getrefcount(x)", r"sys\.getrefcount\(\) depends", "before", 2),
    ("return x * float(input())", r"input\(\) is not", "as a scalar", 2),
]  # fmt: skip


def check(error, body, said, cure, line):
    message = str(error)
    reason = message.partition(" (<functor of")[0]
    assert "functor 'f'" in message, message
    assert re.search(said, reason), message
    assert re.search(cure, reason), message
    assert f":{line})" in message, message
    if line > 1:
        assert message.splitlines()[-1].strip() == body.splitlines()[line - 2].strip()
    assert "\x1b" not in message
    assert "numjit." not in re.sub(r"numjit\.(raw|math|float32)", "", reason)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize(("body", "said", "cure", "line"), ROWS, ids=[row[0][:50] for row in ROWS])
def test_each_has_its_line_and_its_cure(body, said, cure, line, target):
    functor = PythonFunctor(named(body))
    functor.fingerprint()
    for _ in range(2):
        with pytest.raises(CompilationError) as caught:
            functor.specialise(
                (*F32, ArgumentType(dtypes.int64, Category.NUMBER)), dtypes.float32, target=target
            )
        check(caught.value, body, said, cure, line)


SOME = ROWS[::9]


@pytest.mark.parametrize(("body", "said", "cure", "line"), SOME, ids=[row[0][:50] for row in SOME])
def test_calls_say_so_each_time_and_under_torch_compile(body, said, cure, line, device):
    x = torch.ones(3, device=device)
    functor = numjit.elementwise(named(body), outputs=1)
    for _ in range(3):
        with pytest.raises(CompilationError) as caught:
            functor(x)
        check(caught.value, body, said, cure, line)
    torch._dynamo.reset()
    with pytest.raises(Exception, match=said):
        torch.compile(functor, fullgraph=True, backend="eager")(x)
    assert numjit.elementwise(lambda x: x + 1)(x).tolist() == [2.0, 2.0, 2.0]


def test_helpers_are_searched(device):
    def noise():
        return random.random()

    def outer(x):
        return x * noise()

    with pytest.raises(CompilationError, match=r"functor 'noise' .*random\.random\(\) draws"):
        numjit.elementwise(lambda x: outer(x))(torch.ones(2, device=device))


def test_what_a_constant_switches_off_costs_nothing(device):
    def traced(x):
        if OFF:
            print(x)
            x = x * random.random()
        if not settings.ON:
            x = x * time.time()
        return x

    x = torch.ones(2, device=device)
    assert numjit.elementwise(traced)(x).tolist() == [1.0, 1.0]


# ------------------------------------------------------------------------- variables without a value

UNSET = [
    ("if x > 0: y = 2.0 * x\n    return y", "y", 3),
    ("if x > 0:\n        if x > 1: y = 1.0\n        else: y = 2.0\n    return y", "y", 5),
    ("for i in range(n): y = i * x\n    return y", "y", 3),
    ("for i in range(n): pass\n    return x * i", "i", 3),
    ("for i in range(0): y = i * x\n    return y", "y", 3),
    ("for i in range(NONE): y = x\n    return y", "y", 3),
    ("while x > 1:\n        x = x / 2\n        y = x\n    return y", "y", 5),
    ("i = 0\n    while i < 3:\n        y = x\n        i += 1\n    return y", "y", 6),
    ("for i in range(3):\n        if x > i:\n            y = x\n            break\n    return y", "y", 6),
    (
        "for i in range(3):\n        if i > 0: z = y\n        if x > 0: y = x\n        z = x\n    return z",
        "y",
        3,
    ),
    ("for i in range(n):\n        for j in range(3): y = x\n    return y", "y", 4),
    ("if FLAG and x > 0: y = x\n    return y", "y", 3),
    ("if not FLAG: y = x\n    return y", "y", 3),
    ("if not settings.ON: y = x\n    return y", "y", 3),
    ("if x > 0: a, b = x, x\n    return a + b", "a", 3),
    ("if x > 0: y = 1\n    y += 1\n    return y", "y", 3),
    ("if x > 0: y = 2.0\n    return x + 0.0 * y", "y", 3),
    ("if x > 0:\n        def g(v): return v\n    return g(x)", "g", 4),
    ("if x > 0: k = 2.0\n    def g(v): return v * k\n    return g(x)", "k", None),
    ("return no_value(x)", "y", None),
    ("return over((), x)", "y", None),
]
SET = [
    ("for i in range(3): y = i * x\n    return y", 2),
    ("for c in TABLE: y = c * x\n    return y", 2),
    ("for c in (1, 2): y = c * x\n    return y", 2),
    ("for i in range(N): y = x\n    return y", 1),
    ("for i in range(N - 1): y = x * i\n    return y", 1),
    ("for i in range(settings.N): y = x * i\n    return y", 2),
    ("for i in range(len(TABLE)): y = x\n    return y", 1),
    ("for i in range(10, 0, -3): y = x * i\n    return y", 1),
    ("for i, c in enumerate(TABLE): y = x * c * i\n    return y", 2),
    ("for a, b in zip(TABLE, (1, 2)): y = x * b\n    return y", 2),
    ("for i in range(3):\n        for j in range(2): y = x * j\n    return y", 1),
    ("for i in range(2):\n        for j in range(n): z = 1\n        y = x\n    return y", 1),
    ("if FLAG: y = x\n    return y", 1),
    ("if settings.ON: y = x\n    return y", 1),
    ("if settings.N > 2: y = x\n    return y", 1),
    ("if MODE == 2: y = x\n    elif MODE == 3: y = 2 * x\n    return y", 1),
    ("if x > 0: y = 1.0\n    elif x > -5: y = 2.0\n    else: return x\n    return y", 1),
    ("while True:\n        y = x * 2\n        if y > -100: break\n    return y", 2),
    ("for i in range(3):\n        if x > i: break\n        y = 1.0\n    else: y = 2.0\n    return 3.0", 3),
    ("for i in range(3):\n        y = x * i\n        if x > 5: continue\n        y = 1.0\n    return y", 1),
    ("for i in range(n):\n        y = x\n        x = x + y\n    return x", 4),
    ("return over(TABLE, x)", 2),
    ("return over((x, 3 * x), x)", 3),
    ("if FLAG:\n        def g(v): return 3 * v\n    return g(x)", 3),
]  # fmt: skip


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize(("body", "name", "line"), UNSET)
def test_a_variable_that_a_path_leaves_unset(body, name, line, target):
    with pytest.raises(
        CompilationError, match=f"the variable '{name}' may have no value.*set it before"
    ) as caught:
        PythonFunctor(named(body)).specialise(
            (*F32, ArgumentType(dtypes.int64, Category.NUMBER)), dtypes.float32, target=target
        )
    if line is not None:
        assert f":{line})" in str(caught.value)


@pytest.mark.parametrize(("body", "wanted"), SET)
def test_a_variable_that_every_path_sets(body, wanted, device):
    functor = numjit.elementwise(named(body))
    assert functor(torch.ones(2, device=device)).tolist() == [wanted, wanted]


def test_an_unset_variable_under_torch_compile_and_in_the_gradient(device):
    functor = numjit.elementwise(no_value)
    x = torch.ones(2, device=device, requires_grad=True)
    for call in (functor, torch.compile(functor, fullgraph=True, backend="eager")):
        with pytest.raises(Exception, match="the variable 'y' may have no value"):
            call(x)


# --------------------------------------------------------------------------------------- long tuples


def many(count, text="a{}"):
    return ", ".join(text.format(k) for k in range(count))


@pytest.mark.parametrize("count", [31])
def test_any_number_of_results_and_arguments(count, device):
    scope = {}
    exec(
        f"def total({many(count)}):\n    return {many(count, 'a{0} * a{0}').replace(',', ' +')}\n"
        f"def each({many(count)}):\n    return ({many(count, 'a{0} + {0}')})\n"
        f"def largest({many(count)}):\n    return max({many(count)})\n"
        f"def by_name(x):\n    return total({many(count, 'a{0}=x')})\n"
        f"def starred(x):\n    t = ({many(count, 'x * {}')})\n    u = *t, x, *t\n    return u[3] + len(u)\n",
        scope,
    )
    operands = [torch.full((2,), float(k), device=device) for k in range(count)]
    assert numjit.elementwise(scope["largest"])(*operands)[0].item() == count - 1
    each = numjit.elementwise(scope["each"])
    assert [r[1].item() for r in each(*operands)] == [2.0 * k for k in range(count)]
    ones = torch.ones(2, device=device)
    assert numjit.elementwise(scope["by_name"])(ones)[0].item() == count
    assert numjit.elementwise(scope["starred"])(ones)[0].item() == 3 + 2 * count + 1


def test_a_gradient_by_as_many_operands_as_make_long_calls(device):
    """With its gradient the derivative has 29 parameters, which is 30 with the direction before them."""
    scope = {}
    exec(f"def total({many(28)}):\n    return {many(28, 'a{0} * {0}').replace(',', ' +')}\n", scope)
    operands = [torch.full((2,), float(k), device=device, requires_grad=True) for k in range(28)]
    found = torch.autograd.grad(numjit.elementwise(scope["total"])(*operands).sum(), operands[::9])
    assert [g[0].item() for g in found] == [0.0, 9.0, 18.0, 27.0]


def test_many_results_are_one_operator_under_torch_compile(device):
    scope = {}
    exec(f"def each({many(28)}):\n    return ({many(28, 'a{0} + {0}')})\n", scope)
    call = torch.compile(numjit.elementwise(scope["each"]), fullgraph=True, backend="eager")
    operands = [torch.full((2,), float(k), device=device) for k in range(28)]
    assert [r[1].item() for r in call(*operands)] == [2.0 * k for k in range(28)]


# ------------------------------------------------------------------------------- how much is printed


def test_an_error_is_one_screen_with_numbas_own_kept():
    code = """
        import torch, numjit
        def helper(x):
            return x[0]
        def outer(x):
            return helper(x) + 1
        try:
            numjit.elementwise(lambda x: outer(x))(torch.ones(3))
        except numjit.errors.CompilationError as error:
            assert "getitem" in str(error.cause), error.cause
            import pickle
            assert str(pickle.loads(pickle.dumps(error))) == str(error)
        numjit.elementwise(lambda x: outer(x))(torch.ones(3))
    """
    done = run_python(code, check=False)
    assert done.returncode == 1
    assert (
        done.stderr.rstrip().splitlines()[-1].startswith("numjit.errors.CompilationError: functor 'helper'")
    )
    assert len(done.stderr.splitlines()) <= 48
    assert "numba/" not in done.stderr


@pytest.mark.parametrize("installed", [True, False])
def test_numbas_colours_are_not_shown(installed, tmp_path):
    """Numba colours its words where colorama can be imported."""
    (tmp_path / "colorama.py").write_text(_COLORAMA if installed else "raise ImportError('none here')")
    code = """
        import sys
        sys.path.insert(0, sys.argv[1])
        import torch, numjit
        for f in (lambda x: x[0], lambda x: x @ x, lambda x: undefined(x), lambda x: x[0, 1]):
            try:
                numjit.elementwise(f)(torch.ones(3))
            except numjit.errors.CompilationError as error:
                print(ascii(str(error).partition(" (<")[0]))
        from numba.core import errors
        print(type(errors.termcolor()).__name__)
    """
    found = run_python(code, tmp_path).stdout.splitlines()
    assert len(found) == 5
    assert "indexes a number" in found[0]
    assert "multiplies matrices" in found[1]
    assert "'undefined' is not defined" in found[2]
    assert not any("x1b" in line for line in found)
    assert (found[4] == "HighlightColorScheme") is installed


_COLORAMA = """
__version__ = "0.4.6"
def init(*args, **kws): pass
def deinit(): pass
def reinit(): pass
class _Codes:
    def __getattr__(self, name):
        return "\\x1b[1m"
Fore = Back = Style = _Codes()
"""


def test_errors_are_numjits():
    for cls in (CompilationError, FunctorError):
        assert issubclass(cls, NumjitError)
    assert CompilationError("x").cause is None
