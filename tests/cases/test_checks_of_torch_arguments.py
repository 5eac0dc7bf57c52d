"""Arguments of a wrong kind to what numjit has for torch: refused at once, with what to do instead."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import numjit
from numjit.errors import NumjitError
from numjit.torch.sharding import register_pointwise
from tests.cases import run_python

ADD = numjit.elementwise(lambda x, y, *, a=1.0: a * x + y)
DOUBLE = numjit.elementwise(lambda x: x * 2)
TWO = numjit.elementwise(lambda x: (x, x + 1))
NEEDY = numjit.elementwise(lambda x, *, q: x * q)
OPERATOR = numjit.torch_op("numjit_tests::picky", ADD)
X = torch.ones(3)


def register(functor=ADD, name="numjit_tests::refused", **options):
    return lambda: numjit.torch_op(name, functor, **options)


def replace(functor, name="aten::gelu", device="cpu"):
    return lambda: numjit.override(name, functor, device=device)


def paired(*functions, **options):
    return lambda: numjit.differentiable(*functions, **options)


def trained(backward, *others, forward=DOUBLE, **scalars):
    def call():
        x = torch.ones(3, requires_grad=True)
        numjit.differentiable(forward, backward)(x, *others, **scalars).sum().backward()

    return call


REFUSED = {
    "a name that is none": (register(name=None), "namespace::name"),
    "a name without a namespace": (register(name="f"), "namespace::name"),
    "no functor": (register(None), "functor is a NoneType"),
    "a number for a functor": (register(3), "functor is a int"),
    "an operator for a functor": (register(OPERATOR), "functor is a TorchOp"),
    "a class for a functor": (register(int), "functor is a type"),
    "a builtin for a functor": (register(len), "functor is a builtin"),
    "a string for a dtype": (register(autocast="float32"), "autocast is 'float32'"),
    "an integral dtype": (register(autocast=torch.int32), "pass a floating dtype"),
    "NumPy's dtype": (register(autocast=np.float32), "pass a floating dtype"),
    "an unknown device type": (register(autocast={"tpu": torch.float32}), "'tpu'; say 'cuda' or 'cpu'"),
    "a function for flops": (register(flops=lambda *_: 1), "register_flop_formula"),
    "flops of half": (register(flops=1.5), "flops is 1.5"),
    "flops below 0": (register(flops=-1), "flops is -1"),
    "flops of a bool": (register(flops=True), "flops is True"),
    "a list": (lambda: OPERATOR([1.0], X), "'x' is a list.*torch.as_tensor"),
    "a NumPy array": (lambda: OPERATOR(np.ones(3), X), "'x' is a ndarray"),
    "None": (lambda: OPERATOR(X, None), "'y' is a NoneType"),
    "text": (lambda: OPERATOR(X, "1"), "'y' is a str"),
    "a list for a scalar": (lambda: OPERATOR(X, X, a=[1]), "'a' is a list"),
    "a list, with out": (lambda: OPERATOR([1.0], X, out=torch.empty(3)), "'x' is a list"),
    "a large integer": (lambda: OPERATOR(X, X, a=2**63), "int64 only"),
    "a larger integer": (lambda: OPERATOR(X, X, a=2**70), "'a'.*neither int64 nor uint64"),
    "no tensor": (lambda: OPERATOR(1.0, 2.0), "without a tensor"),
    "out that is none": (lambda: OPERATOR(X, X, out=[1]), "pass out="),
    "another number of operands": (replace(ADD), "takes 1 tensors.*2 operands"),
    "another number of results": (replace(TWO), "returns 1 tensors.*2 results"),
    "a scalar that nobody gives": (replace(NEEDY), "no argument 'q'"),
    "an operator that writes": (replace(DOUBLE, "aten::relu_"), "writes to its arguments"),
    "an operator of lists": (replace(DOUBLE, "aten::cat"), "list of tensors"),
    "no replacement": (replace(None), "replacement of aten::gelu is a NoneType"),
    "an operator that is no name": (replace(DOUBLE, 3), "operator to override is a int"),
    "a device that is no name": (replace(DOUBLE, device=torch.device("cpu")), "say 'cuda' or 'cpu'"),
    "a list for a device": (replace(DOUBLE, device=["cpu"]), "say 'cuda' or 'cpu'"),
    "an operator without a name": (replace(DOUBLE, "::"), "torch has no operator"),
    "a forward that is none": (paired(3, DOUBLE), "forward operation is a int"),
    "a backward that is none": (paired(DOUBLE, None), "backward is a NoneType"),
    "text for a backward": (paired(DOUBLE, "text"), "backward is a str"),
    "nothing known to save": (paired(DOUBLE, DOUBLE, save_for_backward=["inputs"]), "save_for_backward="),
    "a string for a count": (paired(DOUBLE, DOUBLE, num_grad_inputs="a"), "num_grad_inputs='a'"),
    "a count of 0": (paired(DOUBLE, DOUBLE, num_grad_inputs=0), "num_grad_inputs=0"),
    "residuals of half": (paired(DOUBLE, DOUBLE, residuals=0.5), "residuals=0.5"),
    "residuals below 0": (paired(DOUBLE, DOUBLE, residuals=-1), "residuals=-1"),
    "too many gradients": (trained(lambda grad, x: (grad, grad)), "2 gradients for 1 inputs"),
    "a backward of too few": (trained(lambda grad: grad), "does not take what it is given, 2 tensors"),
    "an operation of too few": (trained(DOUBLE), "does not take what it is given, 2 tensors"),
    "a backward without the scalar": (
        trained(lambda grad, x, y: (grad, grad), X, forward=ADD, a=2.0),
        "does not take what it is given.*a=",
    ),
    "None for a gradient": (trained(lambda grad, x: None), "gave None for every input"),
    "None for all": (trained(lambda grad, x, y: (None, None), X, forward=ADD), "gave None for every input"),
    "text for a gradient": (trained(lambda grad, x: "a"), "gave a str as the gradient of input 0"),
    "a number for a gradient": (trained(lambda grad, x: 1.0), "gave a float as the gradient of input 0"),
    "an array for a gradient": (trained(lambda grad, x: np.ones(3)), "gave a ndarray"),
    "a gradient of another shape": (trained(lambda grad, x: torch.ones(7)), r"shape \(7,\) for input 0"),
    "a forward that gives nothing": (trained(DOUBLE, forward=lambda x: None), "gave a NoneType"),
    "a gradient that is none": (lambda: DOUBLE.backward(3), "backward is a int"),
    "a functor to shard": (lambda: register_pointwise(ADD), "what numjit.torch_op answered"),
    "linear in a number": (lambda: register_pointwise(OPERATOR, 3), "linear is 3"),
    "linear in numbers": (lambda: register_pointwise(OPERATOR, [1]), "linear is"),
    "linear in nobody": (lambda: register_pointwise(OPERATOR, ("q",)), "no operand 'q'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_kind_is_refused(name):
    call, reason = REFUSED[name]
    with pytest.raises(NumjitError, match=reason):
        call()
    torch.testing.assert_close(OPERATOR(X, X, a=2.0), 3 * X)  # the next good call works


def test_a_type_error_of_a_backward_s_own_is_left_alone():
    def backward(grad, x):
        return grad + None

    with pytest.raises(TypeError, match="unsupported operand"):
        trained(backward)()


def test_an_operator_keeps_its_kernel_where_an_override_is_refused():
    with pytest.raises(NumjitError):
        numjit.override("aten::gelu", ADD, device="cpu")
    assert torch.nn.functional.gelu(torch.zeros(2)).tolist() == [0.0, 0.0]


def test_without_torch_what_needs_it_says_so():
    code = """
        import sys
        sys.modules["torch"] = None
        import numjit
        f = numjit.elementwise(lambda x: x * 2)
        for call in (
            lambda: numjit.torch_op("ns::f", f), lambda: numjit.override("aten::gelu", f),
            lambda: f.explain(1.0), lambda: f.module(),
        ):
            try:
                call()
            except numjit.errors.ToolchainError as error:
                print(error)
    """
    lines = run_python(code).stdout.strip().splitlines()
    assert len(lines) == 4
    assert all("needs torch, which is not installed; install it with pip install torch" in x for x in lines)
