"""Names of operators that are registered anew and taken away, also while other threads call them."""

import threading
import time

import pytest

torch = pytest.importorskip("torch")

import numjit
from numjit.errors import FunctorError
from tests.cases import run_python

STRESS = """
    import random, sys, threading, time
    import torch, numjit
    from numjit.errors import FunctorError

    device, remove = sys.argv[1], sys.argv[2] == "remove"
    x = torch.rand(100, device=device)
    functors = [
        (numjit.elementwise(lambda x: x * 2), x * 2),
        (numjit.elementwise(lambda x, *, k=1.0, m=0.0: x + k), x + 1),
        (numjit.elementwise(lambda x: (x - 1, x)), x - 1),
        (numjit.elementwise(lambda x: x - 1), x - 1),
    ]
    for functor, _ in functors:
        functor(x)
    stop = time.monotonic() + 4.0
    answers, found = [0], []

    def first(result):
        return result[0] if isinstance(result, tuple) else result

    def work(seed):
        draw = random.Random(seed)
        while time.monotonic() < stop:
            name = f"n{draw.randrange(3)}"
            functor, wanted = draw.choice(functors)
            try:
                operator = numjit.torch_op(f"stress::{name}", functor)
                for _ in range(5):
                    if not torch.equal(first(operator(x)), wanted):
                        found.append("a wrong answer")
                    answers[0] += 1
                if remove:
                    operator.remove()
            except FunctorError:
                pass  # the name is another's by now
            except Exception as error:
                found.append(repr(error))
            try:
                result = first(getattr(torch.ops.stress, name)(x))
            except (AttributeError, RuntimeError, FunctorError, TypeError):
                continue  # it is not there at the moment
            if not any(torch.equal(result, right) for _, right in functors):
                found.append("an answer that is nobody's")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not found, found[:5]
    assert answers[0]
    print("good")
"""


@pytest.mark.parametrize("how", ["replace", "remove"])
def test_sixteen_threads_register_three_names_over_and_over_and_call_them(how, device):
    assert run_python(STRESS, device, how).stdout.strip() == "good"


def test_what_refers_to_an_operator_that_is_gone_raises(device):
    code = """
        import sys, torch, numjit
        x = torch.ones(3, device=sys.argv[1])
        operator = numjit.torch_op("gone::f", lambda x: x * 2)
        packet, overload = torch.ops.gone.f, torch.ops.gone.f.default
        assert overload(x).tolist() == [2.0] * 3
        operator.remove()
        assert not hasattr(torch.ops.gone, "f")
        for left in (overload, packet, operator):
            try:
                left(x)
            except (numjit.NumjitError, RuntimeError):
                continue
            raise SystemExit("answered")
        again = numjit.torch_op("gone::f", lambda x, *, a=1.0: x * a)
        assert again(x, a=3.0).tolist() == [3.0] * 3
        library = torch.library.Library("gone", "FRAGMENT")
        again.remove()
        library.define("f(Tensor x) -> Tensor")
        library.impl("f", lambda x: x + 10, "CompositeExplicitAutograd")
        assert torch.ops.gone.f(x).tolist() == [11.0] * 3
        print("good")
    """
    assert run_python(code, device).stdout.strip() == "good"


def test_a_call_that_is_under_way_ends_with_its_own_answer_or_an_error(monkeypatch):
    inside, go_on = threading.Event(), threading.Event()
    operator = numjit.torch_op("numjit_tests::under_way", lambda x: x * 2)
    x = torch.ones(3)
    operator(x)

    def slow(keyset, x):
        inside.set()
        go_on.wait(10)
        return x * 2

    monkeypatch.setitem(operator._definition._autograd, "under_way", slow)
    answers = []

    def call():
        try:
            answers.append(operator(x))
        except FunctorError as error:
            answers.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    assert inside.wait(10)
    start = time.monotonic()
    other = numjit.torch_op("numjit_tests::under_way", lambda x, *, a=3.0: x * a)
    assert time.monotonic() - start < 5
    assert other(x).tolist() == [3.0] * 3
    go_on.set()
    thread.join()
    assert isinstance(answers[0], FunctorError)
    assert "registered anew" in str(answers[0])


def test_modes_see_the_operator_that_has_the_name_now(device):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((func, len(func._schema.arguments)))
            return func(*args, **(kwargs or {}))

    x = torch.ones(3, device=device)
    for count, function in enumerate((lambda x: x * 2, lambda x, *, a=1.0: x * a, lambda x: x + 1), 1):
        operator = numjit.torch_op("numjit_tests::seen_anew", function)
        seen = []
        with Mode():
            result = operator(x)
        assert seen == [(torch.ops.numjit_tests.seen_anew.default, 2 if count == 2 else 1)]
        torch.testing.assert_close(result, function(x))
