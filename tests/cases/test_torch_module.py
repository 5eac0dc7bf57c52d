"""``f.module(...)``: an operation as a module of torch's, whose scalars may be trained."""

import copy
import pickle

import pytest

torch = pytest.importorskip("torch")

import numjit
from numjit.errors import ArgumentError
from tests.cases import KINDS


@numjit.elementwise
def swish(x, *, beta=1.0):
    return x / (1 + numjit.math.exp(-beta * x))


FUNCTORS = {
    "python": swish,
    "c++": numjit.elementwise(
        "template <typename T> T swish_cpp(T x, T beta) { return x / (T(1) + std::exp(-beta * x)); }",
        beta=1.0,
    ),
}
SCALED = numjit.elementwise(lambda x, w, b, *, a=1.0: a * x * w + b)
kinds = pytest.mark.parametrize("kind", KINDS)


def trained(kind, device):
    beta = torch.nn.Parameter(torch.tensor(1.5, dtype=torch.float64))
    return torch.nn.Sequential(
        torch.nn.Linear(4, 4, dtype=torch.float64), FUNCTORS[kind].module(beta=beta), torch.nn.Tanh()
    ).to(device)


@kinds
def test_a_scalar_is_trained(kind, device):
    model = trained(kind, device)
    x = torch.rand(5, 4, dtype=torch.float64, device=device)
    assert list(model.state_dict()) == ["0.weight", "0.bias", "1.beta"]
    inner, beta = model[0](x), model[1].beta
    found = torch.autograd.grad(model(x).sum(), [beta, model[0].weight])
    wanted = torch.autograd.grad((inner * torch.sigmoid(beta * inner)).tanh().sum(), [beta, model[0].weight])
    for one, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, right)
    before = beta.item()
    optimiser = torch.optim.SGD(model.parameters(), 0.5)
    model(x).sum().backward()
    optimiser.step()
    assert beta.item() != before


@kinds
def test_copies_have_parameters_of_their_own(kind, device):
    model = trained(kind, device)
    x = torch.rand(5, 4, dtype=torch.float64, device=device)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(other(x), model(x))
        assert other[1].beta is not model[1].beta
        with torch.no_grad():
            other[1].beta.zero_()
        other.load_state_dict(model.state_dict())
        torch.testing.assert_close(other(x), model(x))


@kinds
def test_under_torch_compile_and_functional_call(kind, device):
    model = trained(kind, device)
    x = torch.rand(5, 4, dtype=torch.float64, device=device)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), model(x))
    found = torch.autograd.grad(compiled(x).sum(), model[1].beta)[0]
    torch.testing.assert_close(found, torch.autograd.grad(model(x).sum(), model[1].beta)[0])
    state = {name: value.detach() * 2 for name, value in model.named_parameters()}
    doubled = copy.deepcopy(model)
    doubled.load_state_dict(state)
    torch.testing.assert_close(torch.func.functional_call(model, state, (x,)), doubled(x))


def test_operands_may_belong_to_the_module_too(device):
    w, b = torch.nn.Parameter(torch.rand(4)), torch.rand(4)
    module = SCALED.module(w=w, b=b, a=2.0).to(device)
    x = torch.rand(3, 4, device=device)
    torch.testing.assert_close(module(x), 2.0 * x * module.w + module.b)
    assert [name for name, _ in module.named_parameters()] == ["w"]
    assert [name for name, _ in module.named_buffers()] == ["b"]
    assert module.extra_repr() == "<lambda>, a=2.0, w=Parameter, b=Tensor"
    torch.testing.assert_close(SCALED.module()(x, x, x), x * x + x)
    assert repr(swish.module(beta=1.5)) == "ElementwiseModule(swish, beta=1.5)"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"gamma": 1.0}, "'gamma' is no parameter; they are x, beta"),
        ({"beta": "1.5"}, "'beta' is a str; pass a number or a tensor"),
        ({"beta": [1.5]}, "'beta' is a list; pass a number or a tensor"),
        ({"beta": torch.ones(3)}, "'beta' is a scalar and has shape"),
    ],
)
def test_what_a_module_cannot_have_is_refused_at_once(given, reason):
    with pytest.raises(ArgumentError, match=reason):
        swish.module(**given)


def test_names_that_modules_have_already():
    function = numjit.elementwise(lambda x, *, forward=1.0: x * forward)
    x = torch.ones(3)
    assert function.module(forward=2.0)(x).tolist() == [2.0] * 3
    with pytest.raises(ArgumentError, match=r"'forward' cannot be a tensor of a module.*rename"):
        function.module(forward=torch.tensor(2.0))
