"""What a Python functor reads beside its parameters: a change of it counts, in the next call and process."""

from __future__ import annotations

import collections
import enum
import functools
import importlib
import inspect
import linecache
import math
import sys
import types
import typing

import numba
import numpy as np
import pytest
import torch

import numjit
from numjit.errors import FunctorError
from numjit.functor.python import PythonFunctor
from tests.cases import run_python
from tests.support.everywhere import ways

#: Modules that a functor reads: text before and after an edit, and the answers for 10.0.
EDITS = {
    "a constant of an IntEnum": (
        "import enum\nclass Mode(enum.IntEnum):\n    SLOW = 1\n    FAST = {}\n",
        "lambda x: x * read.Mode.FAST",
    ),
    "a value of an Enum": (
        "import enum\nclass Mode(enum.Enum):\n    SLOW = 1.0\n    FAST = {}.0\n",
        "lambda x: x * read.Mode.FAST.value",
    ),
    "a member that is captured": (
        "import enum\nclass Mode(enum.IntEnum):\n    FAST = {}\nFAST = Mode.FAST\n",
        "lambda x: x * read.FAST",
    ),
    "an enumeration inside a module inside a module": (
        "import types, enum\nclass Mode(enum.IntEnum):\n    FAST = {}\n"  # noqa: ISC004
        "inner = types.ModuleType('inner')\ninner.Mode = Mode\n",
        "lambda x: x * read.inner.Mode.FAST",
    ),
    "a module's constant": ("ALPHA = {}.0\n", "lambda x: x * read.ALPHA"),
    "a tuple of a module's": ("TABLE = (1.0, {}.0)\n", "lambda x: x * read.TABLE[1]"),
    "a helper's helper": (
        "def inner(x):\n    return x * {}\ndef outer(x):\n    return inner(x)\n",
        "lambda x: read.outer(x)",
    ),
    "a helper's default": ("def outer(x, k={}):\n    return x * k\n", "lambda x: read.outer(x)"),
    "a helper's keyword default": ("def outer(x, *, k={}):\n    return x * k\n", "lambda x: read.outer(x)"),
    "a helper's closure": (
        "def make(k):\n    return lambda x: x * k\nouter = make({})\n",
        "lambda x: read.outer(x)",
    ),
    "a Numba dispatcher": (
        "import numba\nK = {}\n@numba.njit\ndef outer(x):\n    return x * K\n",
        "lambda x: read.outer(x)",
    ),
    "a decorated functor": (
        "import numjit\nK = {}\n@numjit.elementwise\ndef outer(x):\n    return x * K\n",
        "lambda x: read.outer(x)",
    ),
    "the order of a named tuple's fields": (
        "import collections\nP = collections.namedtuple('P', 'a b' if {} == 3 else 'b a')\np = P(3.0, 5.0)\n",
        "lambda x: x * read.p.a",
    ),
    "the fields of a named tuple that is made": (
        "import collections\nP = collections.namedtuple('P', 'a b' if {} == 3 else 'b a')\n",
        "lambda x: read.P(x * 3, x * 5).a",
    ),
    "a NumPy number": ("import numpy as np\nK = np.float32({})\n", "lambda x: x * read.K"),
    "a constant that decides a branch": ("K = {}\n", "lambda x: x * 3 if read.K == 3 else x * 5"),
}


def _fresh(name, text, tmp_path):
    """Write a module's text and import it anew, as a first import does."""
    (tmp_path / f"{name}.py").write_text(text)
    sys.modules.pop(name, None)
    importlib.invalidate_caches()
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        return importlib.import_module(name)
    finally:
        sys.dont_write_bytecode = before


@pytest.mark.parametrize("what", EDITS)
def test_an_edit_is_another_functor_for_either_compiler(what, tmp_path, monkeypatch):
    """The fingerprint is in the key of everything that is on disk, of CPU loops and of kernels."""
    monkeypatch.syspath_prepend(tmp_path)
    text, source = EDITS[what]
    found = []
    for number in (3, 5, 3):
        module = _fresh("edited_module", text.replace("{}", str(number)), tmp_path)
        found.append(PythonFunctor(eval(source, {"read": module})).fingerprint())
    assert found[0] != found[1]
    assert found[0] == found[2]


@pytest.mark.parametrize("what", EDITS)
def test_a_reload_counts_in_the_next_call(what, tmp_path, monkeypatch, device):
    monkeypatch.syspath_prepend(tmp_path)
    text, source = EDITS[what]
    x = torch.tensor([10.0], device=device)
    module = _fresh("reloaded_module", text.replace("{}", "3"), tmp_path)
    functor = numjit.elementwise(eval(source, {"read": module}))
    for _ in range(3):
        assert functor(x).tolist() == [30.0]
    (tmp_path / "reloaded_module.py").write_text(text.replace("{}", "5") + "# another size\n")
    importlib.reload(module)
    for _ in range(3):
        assert functor(x).tolist() == [50.0]


def test_an_edit_counts_in_the_next_process(tmp_path):
    """All kinds at once, as a process takes two seconds."""
    code = """
        import sys
        sys.dont_write_bytecode = True
        sys.path.insert(0, sys.argv[1])
        import torch, numjit, edited
        print([numjit.elementwise(f)(torch.tensor([10.0])).item() for f in edited.functors])
    """
    answers = []
    for number in (3, 5):
        lines = ["import types"]
        for k, (text, source) in enumerate(EDITS.values()):
            (tmp_path / f"part{k}.py").write_text(text.replace("{}", str(number)))
            lines += [f"import part{k}", f"f{k} = ({source.replace('read.', f'part{k}.')})"]
        lines.append(f"functors = [{', '.join(f'f{k}' for k in range(len(EDITS)))}]")
        (tmp_path / "edited.py").write_text("\n".join(lines))
        answers.append(run_python(code, tmp_path, NUMJIT_CACHE_DIR=tmp_path / "cache").stdout.strip())
    assert answers == [str([30.0] * len(EDITS)), str([50.0] * len(EDITS))]


# ------------------------------------------------------------------------------------ within a process


class Mode(enum.IntEnum):
    SLOW = 1
    FAST = 5


class Kind(enum.Enum):
    A = "a"
    B = "b"


class Word(str, enum.Enum):  # noqa: UP042 - StrEnum has methods of its own
    A = "a"
    B = "b"


class Odd(int):
    def __repr__(self):
        return "odd"


Point = collections.namedtuple("Point", "a b")
POINT = Point(Mode.FAST, Odd(3))
MODE = Mode.FAST
KIND = Kind.B
WORD = Word.B
ODD = Odd(3)
TEXT, SAME_TEXT = "ab", "".join(("a", "b"))
HALF, LONG = np.float16(2.5), np.longdouble(2.5)


@pytest.mark.parametrize(
    ("functor", "factor"),
    [
        (lambda x: x * Mode.FAST, 5),
        (lambda x: x * MODE, 5),
        (lambda x: x * int(Mode.FAST), 5),
        (lambda x: x * (Mode.FAST + 1), 6),
        (lambda x: (x, x * 2)[Mode.SLOW], 2),
        (lambda x: x * 7 if Mode.FAST > Mode.SLOW else x, 7),
        (lambda x: x * MODE.value, 5),
        (lambda x: x * POINT.a, 5),
        (lambda x: x * POINT.b, 3),
        (lambda x: x * ODD, 3),
        (lambda x: x * HALF, 2.5),
        (lambda x: x * LONG, 2.5),
        (lambda x: x * 3 if KIND is Kind.B else x * 5, 3),
        (lambda x: x * 3 if KIND == Kind.A else x * 5, 5),
        (lambda x: x * 3 if KIND != Kind.A else x * 5, 3),
        (lambda x: x * 3 if WORD == Word.B else x * 5, 3),
        (lambda x: x * 3 if TEXT == SAME_TEXT else x * 5, 3),
    ],
)
def test_members_and_numbers_of_own_classes_are_plain_numbers(functor, factor, device):
    x = torch.tensor([1.0, -2.0], device=device)
    for way, found in ways(functor, [x], backend="eager"):
        assert found.tolist() == [factor, -2.0 * factor], way


def _by_mode(x, *, mode=Mode.SLOW):
    return x if mode == Mode.SLOW else x * Mode.FAST


def test_a_scalar_is_compared_with_a_member(device):
    x = torch.tensor([2.0], device=device)
    for mode, wanted in ((1, 2.0), (Mode.SLOW, 2.0), (Mode.FAST, 10.0), (3, 10.0)):
        for way, found in ways(_by_mode, [x], {"mode": int(mode)}, backend="eager"):
            assert found.tolist() == [wanted], way
    assert numjit.elementwise(_by_mode)(x).tolist() == [2.0]


RATE = 2.0


@numba.njit
def _jitted(x):
    return x * RATE


def test_a_global_of_a_numba_function_is_not_frozen(monkeypatch, device):
    functor = numjit.elementwise(lambda x: _jitted(x))
    x = torch.tensor([1.0], device=device)
    assert functor(x).tolist() == [2.0]
    monkeypatch.setattr(sys.modules[__name__], "RATE", 7.0)
    assert functor(x).tolist() == [7.0]


def test_a_keyword_default_changed_in_place(device):
    def helper(x, *, k=2.0):
        return x * k

    functor = numjit.elementwise(lambda x: helper(x))
    x = torch.tensor([1.0], device=device)
    assert [functor(x).item() for _ in range(3)] == [2.0] * 3
    helper.__kwdefaults__["k"] = 7.0
    assert [functor(x).item() for _ in range(3)] == [7.0] * 3


def _minus(a, b):
    return a - b


@functools.wraps(_minus)
def _swapped(b, a):
    return 2 * _minus(a, b)


@functools.wraps(np.exp)
def _exponential(v):
    return math.exp(v)


def _signed(a, b):
    return a - b


_signed.__signature__ = inspect.Signature(
    [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("b", "a")]
)


@pytest.mark.parametrize(
    ("functor", "wanted"),
    [
        (_swapped, 18.0),
        (_signed, -9.0),
        (lambda x, y: _swapped(x, y), 18.0),
        (lambda x, y: _swapped(a=x, b=y), -18.0),
        (lambda x, y: _signed(x, y), -9.0),
        (lambda x, y: _exponential(x) * 0 + y, 10.0),
    ],
)
def test_a_wrapper_has_the_signature_of_its_own_code(functor, wanted, device):
    operands = [torch.tensor([1.0], device=device), torch.tensor([10.0], device=device)]
    for way, found in ways(functor, operands, backend="eager"):
        assert found.tolist() == [wanted], way


def test_a_name_behind_many_others_is_followed():
    """Names beyond the 255th take an instruction more."""
    settings = types.ModuleType("settings")
    settings.K = 2.0
    body = " + ".join(f"n{k}" for k in range(300))
    space = {f"n{k}": 0.0 for k in range(300)} | {"settings": settings}
    exec(f"def f(x):\n    return x * ({body} + settings.K)", space)
    functor = numjit.elementwise(space["f"])
    assert functor(torch.ones(1)).item() == 2.0
    settings.K = 7.0
    assert functor(torch.ones(1)).item() == 7.0


# --------------------------------------------------------------------- what cannot be followed is refused


class Flags(enum.IntFlag):
    A = 1
    B = 2


class Holder:
    ALPHA = 2.0

    class Inner:
        BETA = 3.0

    def method(self, x):
        return x * self.ALPHA

    @staticmethod
    def twice(x):
        return 2 * x

    def __call__(self, x):
        return x


class Vector(typing.NamedTuple):
    a: float
    b: float

    def __add__(self, other):
        return Vector(self.a * other.a, self.b * other.b)


class Twice(float):
    def __mul__(self, other):
        return 2 * float(self) * other

    __rmul__ = __mul__


class Weighted(enum.Enum):
    A = 1

    @property
    def weight(self):
        return 2.0


holder, settings, vector, twice = Holder(), types.ModuleType("settings"), Vector(1.0, 2.0), Twice(3.0)
settings.K = 3.0
array, array0, tensor = np.ones(3), np.array(2.0), torch.tensor(2.0)
numbers, table, generator = [1.0], {"k": 1.0}, (k for k in range(3))
partial, cached = functools.partial(max, 1.0), functools.lru_cache(_minus)
drawing, numpy_drawing = __import__("random").Random(1), np.random.default_rng(1)
_minus.factor = 2.0


def _aliased(x):
    s = settings
    return x * s.K


@pytest.mark.parametrize(
    ("functor", "kind", "name", "cure"),
    [
        (lambda x: x * Holder.ALPHA, "class", "Holder", "alpha = Holder.ALPHA"),
        (lambda x: x * Holder.Inner.BETA, "class", "Holder", "variable of its own"),
        (lambda x: Holder.twice(x), "class", "Holder", "variable of its own"),
        (lambda x: holder.method(x), "Holder", "holder", "pass it as a scalar"),
        (lambda x: holder(x), "Holder", "holder", "pass it as a scalar"),
        (lambda x: x * holder.ALPHA, "Holder", "holder", "variable of its own"),
        (_aliased, "module", "settings", "settings.NAME"),
        (lambda x: x * _minus.factor, "function", "_minus", "factor = _minus.factor"),
        (lambda x: x * array[0], "ndarray", "array", "pass it as an operand"),
        (lambda x: x * array0, "ndarray", "array0", "pass it as an operand"),
        (lambda x: x * tensor, "Tensor", "tensor", "pass it as an operand"),
        (lambda x: x * numbers[0], "list", "numbers", "tuple of numbers"),
        (lambda x: x * table["k"], "dict", "table", "pass it as a scalar"),
        (lambda x: x + sum(generator), "generator", "generator", "tuple of numbers"),
        (lambda x: partial(x), "partial", "partial", "write a function"),
        (lambda x: cached(x, x), "_lru_cache_wrapper", "cached", "pass it as a scalar"),
        (lambda x: x * drawing.random(), "Random", "drawing", "pass them as an operand"),
        (lambda x: x * numpy_drawing.random(), "Generator", "numpy_drawing", "pass them as an operand"),
        (lambda x: x * Flags.A, "Flags", "Flags", "write .value"),
        (lambda x: (Vector(x, x) + vector).a, "class", "Vector", "plain function"),
        (lambda x: x * twice, "Twice", "twice", "use a float"),
        (lambda x: x * Weighted.A.weight, "Weighted", "Weighted", "write .value"),
        (lambda x: x * len(Weighted.__members__), "class", "Weighted", "name a member"),
        (lambda x: x.to(torch.float64), "dtype", "torch.float64", "annotate"),
    ],
)
def test_what_cannot_be_followed_is_refused_by_name(functor, kind, name, cure):
    with pytest.raises(FunctorError) as caught:
        numjit.elementwise(functor)
    message = str(caught.value)
    line = functor.__code__.co_firstlineno + (functor is _aliased)
    assert f"functor {functor.__name__!r} cannot capture a" in message
    assert f" {kind}, {name!r}: " in message
    assert cure in message
    assert f"({__file__}:{line})" in message
    assert message.splitlines()[1].strip() in inspect.getsource(functor)


def test_what_becomes_a_list_is_refused_in_every_later_call(device):
    scope = {"k": 2.0}
    exec("def f(x):\n    return x * k", scope)
    functor = numjit.elementwise(scope["f"])
    x = torch.ones(2, device=device)
    assert functor(x).tolist() == [2.0, 2.0]
    scope["k"] = [3.0]
    for _ in range(3):
        with pytest.raises(FunctorError, match="cannot capture a list, 'k'"):
            functor(x)
    scope["k"] = 3.0
    assert functor(x).tolist() == [3.0, 3.0]


# ------------------------------------------------------------------------------------ under torch.compile

REBOUND = {
    "a class of an enumeration": ("lambda x: x * Mode.A", {"Mode": enum.IntEnum("Mode", "Z A")}, "Mode",
                                  enum.IntEnum("Mode", "Z Y X W A")),
    "a member": ("lambda x: x * member", {"member": Mode.SLOW}, "member", Mode.FAST),
    "a helper": ("lambda x: help_me(x)", {"help_me": lambda x: x * 2}, "help_me", lambda x: x * 5),
    "a decorated functor": ("lambda x: g(x)", {"g": numjit.elementwise(lambda x: x * 2)}, "g",
                            numjit.elementwise(lambda x: x * 5)),
    "None": ("lambda x: x * 2 if k is None else x * 5", {"k": None}, "k", 3.0),
    "a tuple with a member": ("lambda x: x * t[1]", {"t": (Mode.FAST, 2.0)}, "t", (Mode.FAST, 5.0)),
    "a member in a tuple": ("lambda x: x * t[0]", {"t": (Mode.SLOW, 2.0)}, "t", (Mode.FAST, 2.0)),
    "a named tuple": ("lambda x: x * p.a", {"p": Point(2.0, 1.0)}, "p", Point(5.0, 1.0)),
}  # fmt: skip


@pytest.mark.parametrize("what", REBOUND)
@pytest.mark.parametrize("through", ["", "settings."])
def test_a_compiled_call_notices_what_is_rebound(what, through, device):
    """Of the functor itself, and through a module."""
    source, names, changed, value = REBOUND[what]
    module = types.ModuleType("settings")
    vars(module).update(names)
    for name in names:
        source = source.replace(name, through + name)
    space = {"settings": module} if through else dict(names)
    file = f"<functor {source}>"
    linecache.cache[file] = (len(source), None, [source], file)  # without a source it is an opaque operator
    functor = numjit.elementwise(eval(compile(source, file, "eval"), space))
    x = torch.tensor([1.0], device=device)
    assert functor.explain(x) is None or what == "a named tuple"  # whose fields are not seen through
    torch._dynamo.reset()
    call = torch.compile(lambda v: functor(v), fullgraph=True, backend="eager")
    before = [call(x).item() for _ in range(2)]
    (vars(module) if through else space)[changed] = value
    after = [call(x).item() for _ in range(2)]
    assert after == [functor(x).item()] * 2
    assert after[0] == 5.0
    assert before[0] == before[1] != 5.0


def test_a_compiled_call_notices_a_helpers_new_code(device):
    def helper(x):
        return x * 2

    functor = numjit.elementwise(lambda x: helper(x))
    call = torch.compile(lambda v: functor(v), fullgraph=True, backend="eager")
    x = torch.tensor([1.0], device=device)
    assert call(x).item() == 2.0
    helper.__code__ = (lambda x: x * 5).__code__
    assert call(x).item() == 5.0
