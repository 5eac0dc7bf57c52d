"""A functor's identity: the same in every process, another one whenever its meaning changes."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
import types

import numpy as np
import pytest

from numjit import dtypes
from numjit.errors import FunctorError
from numjit.functor.fingerprint import digest
from numjit.functor.python import PythonFunctor

SCALE = 2.0
TABLE = (1.0, 2.0)


def helper(x):
    return x * SCALE


def scaled(x):
    return helper(x) + math.sqrt(x)


def make(number):
    def inner(x):
        return x * number

    return inner


def compiled_function(text, **names):
    exec(text, names)
    return names["f"]


def same(text, other, **names):
    return digest(compiled_function(text, **names)) == digest(compiled_function(other, **names))


def test_the_text_decides_not_its_place():
    assert same("def f(x): return x + 1", "\n\n# moved\ndef f(x): return x + 1")
    assert not same("def f(x): return x + 1", "def f(x): return x + 2")
    assert not same("def f(x): return x + 1", "def f(x): return x - 1")


@pytest.mark.parametrize(
    ("one", "other"), [("1", "1.0"), ("1", "True"), ("0.0", "-0.0"), ("1.0", "1j"), ("1", "(1,)")]
)
def test_constants_of_equal_value_differ_by_type(one, other):
    assert not same(f"def f(x): return x, {one}", f"def f(x): return x, {other}")
    assert digest(make(eval(one))) != digest(make(eval(other)))


def test_closures_that_differ_in_a_number():
    assert digest(make(4)) != digest(make(8))
    assert digest(make(4)) == digest(make(4))


def test_defaults_count():
    assert not same("def f(x, y=1): return x + y", "def f(x, y=2): return x + y")
    assert not same("def f(x, *, y=1): return x + y", "def f(x, *, y=2): return x + y")


def test_a_rebound_global_changes_it(monkeypatch):
    functor = PythonFunctor(scaled)
    before, captures = functor.fingerprint(), functor.current_captures()
    assert functor.fingerprint() == before
    assert all(a is b for a, b in zip(functor.current_captures(), captures, strict=True))
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 3.0)  # a global of the helper, not of the functor
    assert any(a is not b for a, b in zip(functor.current_captures(), captures, strict=True))
    assert functor.fingerprint() != before
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 2.0)
    assert functor.fingerprint() == before


def test_a_rebound_captured_variable_changes_it():
    number = 4

    def inner(x):
        return x * number

    functor = PythonFunctor(inner)
    before, captures = functor.fingerprint(), functor.current_captures()
    number = 8
    assert any(a is not b for a, b in zip(functor.current_captures(), captures, strict=True))
    assert functor.fingerprint() != before


def test_a_helper_of_another_module_counts(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for name, text in (("one", "x + 1"), ("two", "x + 2"), ("three", "x + 1")):
        (tmp_path / f"helper_{name}.py").write_text(f"def help_me(x):\n    return {text}\n")
        module = __import__(f"helper_{name}")
        direct = compiled_function("def f(x): return help_me(x)", help_me=module.help_me)
        through = compiled_function("def f(x): return tools.help_me(x)", tools=module)
        found.append((digest(direct), digest(through)))
    assert found[0][0] == found[2][0]
    assert found[0][0] != found[1][0]
    assert found[0][1] != found[1][1]


def test_a_number_of_a_module_counts():
    module = types.ModuleType("settings")
    module.scale = 1.0
    functor = PythonFunctor(compiled_function("def f(x): return x * settings.scale", settings=module))
    before, captures = functor.fingerprint(), functor.current_captures()
    module.scale = 2.0
    assert any(a is not b for a, b in zip(functor.current_captures(), captures, strict=True))
    assert functor.fingerprint() != before


def test_recursive_and_shared_helpers_end():
    names = {}
    exec("def a(x): return b(x)\ndef b(x): return a(x) + a(x)", names)
    assert digest(names["a"]) == digest(names["a"])


def test_inner_functions_count():
    text = "def f(x):\n    def g(y): return y * {}\n    return g(x)"
    assert not same(text.format(2), text.format(3))


def test_arrays_and_lists_cannot_be_captured():
    for value in (np.ones(3), [1.0, 2.0], {"a": 1}):
        with pytest.raises(FunctorError, match="cannot capture a"):
            digest(make(value))
    digest(make(np.float32(2.0)))
    assert digest(make(np.float32(2.0))) != digest(make(np.float64(2.0)))
    digest(make(dtypes.float32))


def test_the_declaration_counts():
    plain = PythonFunctor(compiled_function("def f(x, *, a=1): return x * a"))
    assert plain.fingerprint() != PythonFunctor(plain.fn, scalars={"a": 2}).fingerprint()
    annotated = compiled_function("def f(x: kind, *, a=1): return x * a", kind=dtypes.float32)
    assert plain.fingerprint() != PythonFunctor(annotated).fingerprint()


def test_stable_across_processes():
    program = (
        "import tests.unit.test_fingerprint as t, numjit.functor.python as p;"
        "print(p.PythonFunctor(t.scaled).fingerprint(), t.digest(t.make(frozenset('abcdef'))))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env=_environment(seed),
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert found.pop().split()[0] == PythonFunctor(scaled).fingerprint()


def _environment(seed):
    import os

    return {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}


def test_pickles_with_its_function():
    functor = PythonFunctor(scaled, outputs=1)
    copy = pickle.loads(pickle.dumps(functor))
    assert copy.fingerprint() == functor.fingerprint()
    assert copy.signature == functor.signature
