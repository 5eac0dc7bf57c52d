"""What an error leaves behind: outputs as they were, operations that work, one screen; and command lines."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

import numjit
from numjit.__main__ import main
from numjit.errors import (
    ArgumentError,
    BroadcastError,
    DeviceError,
    FunctorError,
    NumjitError,
    OutputError,
    OverlapError,
    ToolchainError,
)
from tests.cases import ADD, ROOT, SCALED, SUM_AND_DIFFERENCE, both_kinds, environment, run_python
from tests.cases.test_errors_and_checks import CURE, OPERANDS, SCALARS
from tests.support.wrong_values import VALUES

# -------------------------------------------------------------------------------- nothing is written


def poisoned(device, shape=(3,)):
    return torch.full(shape, 77.0, device=device)


def intact(out):
    return bool((out == 77.0).all())


@both_kinds
@pytest.mark.parametrize("warm", [False, True])
def test_wrong_operands_and_scalars_write_nothing(kind, warm, device):
    x = torch.ones(3, device=device)
    f = (
        SCALED[kind]
        if warm
        else numjit.elementwise(SCALED[kind].source, **({} if kind == "python" else {"alpha": 1}))
    )
    if warm:
        f(x, x)
        f(x, x, out=poisoned(device))
    wrong = [name for name in VALUES if name not in OPERANDS]
    for name in wrong:
        out = poisoned(device)
        with pytest.raises(NumjitError):
            f(VALUES[name](), x, out=out)
        with pytest.raises(NumjitError):
            f(x, VALUES[name](), out=out)
        assert intact(out), name
    for name in VALUES:
        if name in SCALARS:
            continue
        out = poisoned(device)
        with pytest.raises(NumjitError):
            f(x, x, alpha=VALUES[name](), out=out)
        assert intact(out), name
    assert f(x, x, alpha=2.0).tolist() == [3.0] * 3
    assert f(x, x, out=poisoned(device)).tolist() == [2.0] * 3


@both_kinds
@pytest.mark.parametrize("first", [False, True])
def test_one_wrong_output_of_two_leaves_the_other(kind, first, device):
    x = torch.ones(3, device=device)
    f = SUM_AND_DIFFERENCE[kind]
    f(x, x)
    fine = {"none", "tensor"} | ({"numpy array"} if device == "cpu" else set())
    for name in VALUES:
        if name in fine:
            continue
        out = poisoned(device)
        pair = (VALUES[name](), out) if first else (out, VALUES[name]())
        with pytest.raises(NumjitError):
            f(x, x, out=pair)
        assert intact(out), name
    assert [r.tolist() for r in f(x, x)] == [[2.0] * 3, [0.0] * 3]


@both_kinds
@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda f, x, out: f(x, x.repeat(2), out=out), BroadcastError),
        (lambda f, x, out: f(x, x, out=out[:1]), OutputError),
        (lambda f, x, out: f(x, x, out=out[:1].expand(3)), OverlapError),
        (lambda f, x, out: f(out[:-1], x[:2], out=out[1:]), OverlapError),
        (lambda f, x, out: f(x, x, out=(out, out)), OutputError),
        (lambda f, x, out: f(x, x, out=[out]), NumjitError),
        (lambda f, x, out: f(x, out=out), ArgumentError),
        (lambda f, x, out: f(x, x, x, out=out), ArgumentError),
        (lambda f, x, out: f(x, x, nonsense=1, out=out), ArgumentError),
        (lambda f, x, out: f(x, x, x=x, out=out), ArgumentError),
        (lambda f, x, out: f(x, x, shape=3, out=out), ArgumentError),
        (lambda f, x, out: f(x.double(), x, out=out.int()), OutputError),
        (lambda f, x, out: f(x.to("meta"), x, out=out), DeviceError),
        (lambda f, x, out: f(x, x, out=out.requires_grad_()), OutputError),
    ],
)
def test_calls_that_do_not_fit_write_nothing(kind, warm, call, error, device):
    x = torch.ones(3, device=device)
    f = ADD[kind] if warm else numjit.elementwise(ADD[kind].source)
    if warm:
        f(x, x, out=poisoned(device))
    out = poisoned(device)
    with pytest.raises(error) as caught:
        call(f, x, out)
    assert isinstance(caught.value, NumjitError)
    assert f.__name__ in str(caught.value)
    assert CURE.search(str(caught.value)), str(caught.value)
    assert intact(out.detach())
    assert f(x, x).tolist() == [2.0] * 3


# ---------------------------------------------------------------------------------- texts and captures


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("", FunctorError),
        ("x * 2", FunctorError),
        ("template <typename T> T f(T x) { return x;", FunctorError),
        ("template <typename T> T f(T x", FunctorError),
        ("template <typename T T f(T x) { return x; }", FunctorError),
        ("template <typename T> f(T x) { return x; }", FunctorError),
        ("template <typename T> void f(T x) { }", FunctorError),
        ("template <typename T> T& f(T& x) { return x; }", FunctorError),
        ("struct S { int a; };", FunctorError),
        ("// only a comment", FunctorError),
        ("T f(T x) { return x; }", NumjitError),
        ('template <typename T> T f(T x) { return "a; }', FunctorError),
        ("/* never closed", FunctorError),
        ("template <typename T> T f(T x) { return undeclared; }", NumjitError),
        ("template <int N> int f(int x) { return N; }", FunctorError),
        ("template <typename T> T f(T* x) { return *x; }", FunctorError),
        ("template <typename T> T f(T x, ...) { return x; }", FunctorError),
        ("int main() { return 0; }\n#define", NumjitError),
    ],
)
def test_texts_that_are_no_functor(source, error, device):
    with pytest.raises(error) as caught:
        numjit.elementwise(source)(torch.ones(3, device=device))
    assert isinstance(caught.value, NumjitError)


def _captures():
    class Own:
        pass

    return {
        "list": [1.0], "dict": {"a": 1}, "set": {1}, "array": np.ones(3), "tensor": torch.ones(3),
        "object": Own(), "bytearray": bytearray(b"a"), "generator": (k for k in ()), "file": sys.stdout,
    }  # fmt: skip


@pytest.mark.parametrize("name", list(_captures()))
def test_a_captured_value_that_has_no_place_in_a_kernel(name, device):
    captured = _captures()[name]
    with pytest.raises(NumjitError, match=r"captur|operand"):
        numjit.elementwise(lambda x: x + captured)(torch.ones(3, device=device))


# ---------------------------------------------------------------------------------------- one screen

_SCREEN = """
    import sys, traceback
    if sys.argv[1] == "without":
        sys.modules["colorama"] = None
    else:
        import colorama
    import numpy as np, torch, numjit
    from numjit import jiterator

    class Raises:
        @property
        def __cuda_array_interface__(self):
            raise ValueError("no interface")

    class Exports:
        def __dlpack_device__(self):
            return 1, 0
        def __dlpack__(self, **_):
            raise BufferError("no export")

    TEXT = "template <typename T> T axpy(T x, T y, T alpha) { return alpha * x + y; }"
    x = torch.ones(3)
    g = torch.ones(3, requires_grad=True)
    f = numjit.elementwise(lambda x, y, *, alpha=1.0: alpha * x + y)
    cpp = numjit.elementwise(TEXT, alpha=1.0)
    ramp = numjit.elementwise(lambda *, s=1.0: s * numjit.index())
    f(x, x), cpp(x, x)
    calls = [
        lambda: numjit.elementwise(3),
        lambda: numjit.elementwise(lambda x: x, options="--use_fast_math"),
        lambda: numjit.elementwise("template <typename T> T f(T x) { return x;"),
        lambda: numjit.elementwise(TEXT, entry="nonsense"),
        lambda: f([1.0], x),
        lambda: cpp(x),
        lambda: f(x, torch.ones(4)),
        lambda: f(x, x, alpha=None),
        lambda: f(g, [1.0]),
        lambda: f(g, x, nonsense=1),
        lambda: f(Raises(), x),
        lambda: cpp(x, Exports()),
        lambda: f(x, x, out=Exports()),
        lambda: f(x, x, out=torch.ones(4)),
        lambda: f(x.to_sparse(), x),
        lambda: ramp(shape=-1),
        lambda: ramp(shape=3, device="tpu"),
        lambda: f.inspect(None, x),
        lambda: f.prepare(x, None),
        lambda: f.device_function("nonsense", "float32"),
        lambda: numjit.value_and_grad(f, "nonsense"),
        lambda: numjit.warmup(f, ("nonsense", "float32"), targets="cpu"),
        lambda: numjit.warmup(f, layouts=["diagonal"], targets="cpu"),
        lambda: jiterator.create_jit_fn("void"),
        lambda: f.backward(lambda g: g),
        lambda: numjit.math.exp("text"),
    ]
    for number, call in enumerate(calls):
        try:
            call()
        except numjit.NumjitError as error:
            lines = "".join(traceback.format_exception(error)).splitlines()
            print(number, len(lines), type(error).__name__)
            if len(lines) > int(sys.argv[2]):
                print("\\n".join(lines))
        else:
            print(number, 999, "nothing was raised")
"""


@pytest.mark.parametrize("colours", ["with", "without"])
def test_a_traceback_is_one_screen(colours):
    most = 25
    shown = run_python(_SCREEN, colours, most).stdout
    counts = [int(line.split()[1]) for line in shown.splitlines() if line[:1].isdigit()]
    assert len(counts) == 26
    assert max(counts) <= most, shown


# ------------------------------------------------------------------------------------ command lines

LINES = [
    line.strip()
    for line in """
    tune nosuchmodule:f
    tune math:sin
    tune math
    tune .math:sin
    tune math:nosuch
    tune :
    tune numjit:elementwise --shape 3
    tune HERE:F --shape x
    tune HERE:F --shape 3,,4
    tune HERE:F --shape 3,1.5
    tune HERE:F --shape -3
    tune HERE:F --dtype float33
    tune HERE:F --dtype nn
    warmup nosuchmodule:f --cpu
    warmup math:sin --cpu
    warmup .math:sin --cpu
    warmup : --cpu
    warmup HERE:F --cc nonsense
    warmup HERE:F --cc 9
    warmup HERE:F --cc 1.0
    warmup HERE:F --cc 9.0 --dtypes nonsense
    warmup HERE:F --cc 9.0 --layouts nonsense
    warmup HERE:F --cc 9.0 --jobs 0
    demo --output /dev/null
    demo --output /dev/null/below
    """.strip().splitlines()
]
PARSED = [
    line.strip()
    for line in """
    paint
    info extra
    demo --device tpu
    demo --output
    tune
    tune math:sin --shape
    warmup
    warmup --cpu
    warmup math:sin --jobs 1.5
    warmup math:sin --cc
    --nonsense
    warmup math:sin --nonsense
    """.strip().splitlines()
]
F = numjit.elementwise(lambda x: x + 1)


@pytest.mark.parametrize("line", LINES)
def test_a_command_line_that_names_what_is_not_there(line, capsys):
    assert main(line.replace("HERE", __name__).split()) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert len(told.err.splitlines()) == 1
    assert CURE.search(told.err), told.err


@pytest.mark.parametrize("line", PARSED)
def test_a_command_line_that_cannot_be_parsed(line, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(line.split())
    assert stopped.value.code == 2
    assert "error: " in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("raised", ["RuntimeError('not\\ntoday')", "SystemExit(3)", "ZeroDivisionError()"])
def test_a_module_that_cannot_be_imported_is_told_in_one_line(raised, tmp_path, monkeypatch, capsys):
    (tmp_path / "does_not_import.py").write_text(f"raise {raised}\n")
    (tmp_path / "does_not_parse.py").write_text("def (:\n")
    monkeypatch.syspath_prepend(tmp_path)
    for command in ("tune", "warmup"):
        for module in ("does_not_import", "does_not_parse"):
            assert main([command, f"{module}:f"]) == 2
            assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_exit_code_of_the_process_and_no_traceback():
    done = subprocess.run(
        [sys.executable, "-m", "numjit", "tune", "math:sin"], capture_output=True, text=True, check=False,
        cwd=ROOT, env=environment(),
    )  # fmt: skip
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


# ------------------------------------------------------------------------------------------ no torch

_NO_TORCH = """
    import sys
    sys.modules["torch"] = None  # as where it is not installed

    class Blocker:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] == "torch":
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    sys.meta_path.insert(0, Blocker())
    del sys.modules["torch"]
    import numpy as np, numjit
    from numjit.errors import NumjitError

    f = numjit.elementwise(lambda x, y, *, alpha=1.0: alpha * x + y)
    x = np.ones(3)
    calls = [
        lambda: f.explain(x, x),
        lambda: f([1.0], x),
        lambda: f(None, x),
        lambda: f(x, x, out=[1.0]),
        lambda: f(x, x, alpha="a"),
        lambda: f(x, np.ones(4)),
        lambda: f.inspect(None, x),
        lambda: f.prepare(None, x),
        lambda: f.backward(5),
        lambda: numjit.value_and_grad(5),
        lambda: numjit.elementwise(lambda x: x, autotune=[1]),
        lambda: numjit.elementwise(lambda x: x, flops=lambda: 3),
        lambda: numjit.elementwise(lambda x: x, opaque="yes"),
        lambda: numjit.elementwise(lambda x: x, options="-G"),
        lambda: numjit.warmup(f, ("nonsense", "float32"), targets="cpu"),
        lambda: numjit.Operand("torch.float99"),
    ]
    for number, call in enumerate(calls):
        try:
            call()
        except NumjitError as error:
            print(number, type(error).__name__, error)
        else:
            print(number, "nothing was raised")
    assert f(x, x).tolist() == [2.0, 2.0, 2.0]
    print("done")
"""


def test_without_torch_the_same_is_refused():
    *told, last = run_python(_NO_TORCH).stdout.splitlines()
    assert last == "done"
    assert len(told) == 16
    for line in told:
        assert "Error" in line
        assert CURE.search(line), line


# ------------------------------------------------------------------------------------------ settings


def test_a_compiler_that_is_not_there(monkeypatch):
    monkeypatch.setenv("NUMJIT_CXX", "/nowhere/no-compiler")
    text = "template <typename T> T never_compiled_before(T x) { return x + T(12345); }"
    with pytest.raises(ToolchainError, match=r"NUMJIT_CXX|compiler") as caught:
        numjit.elementwise(text)(torch.ones(3))
    assert CURE.search(str(caught.value)), str(caught.value)


def test_info_tells_of_a_cache_folder_that_cannot_be_read(monkeypatch, tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("NUMJIT_CACHE_DIR", str(tmp_path / "file" / "below"))
    main(["info"])
    assert "Traceback" not in capsys.readouterr().out


def test_info_tells_of_a_setting_that_is_not_understood(monkeypatch, capsys):
    monkeypatch.setenv("NUMJIT_CACHE_LIMIT", "nonsense")
    assert main(["info"]) == 1
    assert "MISSING settings" in capsys.readouterr().out
