"""Every shell and edge launched once on a card: run under compute-sanitizer with ``-m sanitize``."""

import pytest

torch = pytest.importorskip("torch")

import numjit
from numjit.plan import choose as plan

pytestmark = [pytest.mark.gpu, pytest.mark.sanitize]

KINDS = [torch.bool, torch.uint8, torch.int16, torch.float16, torch.float32, torch.float64, torch.complex128]


@numjit.elementwise
def add(x, y):
    return x + y


@numjit.elementwise
def select(c: numjit.bool_, x, y, *, shift=0.0):
    return (x if c else y) + shift


@numjit.elementwise
def two(x, y):
    return x - y, x * y


@numjit.elementwise
def same(x):
    return x


def fresh(*shape, dtype=torch.float32):
    values = torch.randint(0, 50, shape, device="cuda")
    return values.to(dtype)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize("count", [1, 255, 4096, 10_001])
def test_contiguous(dtype, count):
    x, y = fresh(count, dtype=dtype), fresh(count, dtype=dtype)
    assert torch.equal(add(x, y), x + y)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize("offset", [1, 2, 3, 7])
def test_misaligned(dtype, offset):
    x, y = fresh(5000, dtype=dtype)[offset:], fresh(5000, dtype=dtype)[: 5000 - offset]
    assert torch.equal(add(x, y), x + y)
    out = torch.empty(5000, dtype=dtype, device="cuda")[offset:]
    add(x, y, out=out)
    assert torch.equal(out, x + y)


LAYOUTS = {
    "row": lambda d: (fresh(33, 129, dtype=d), fresh(129, dtype=d)),
    "column": lambda d: (fresh(33, 128, dtype=d), fresh(33, 1, dtype=d)),
    "outer": lambda d: (fresh(33, 1, dtype=d), fresh(1, 256, dtype=d)),
    "tile": lambda d: (fresh(64, 128, dtype=d).t(), fresh(128, 64, dtype=d)),
    "tile edges": lambda d: (fresh(3, 70, 131, dtype=d).transpose(1, 2), fresh(3, 131, 70, dtype=d)),
    "tiles staged twice": lambda d: (fresh(70, 90, dtype=d).t()[1:], fresh(70, 91, dtype=d).t()[2:]),
    "steps": lambda d: (fresh(40, 200, dtype=d)[::2, ::3], fresh(20, 67, dtype=d)),
    "slice": lambda d: (fresh(20, 140, dtype=d)[:, 3:131], fresh(20, 128, dtype=d)),
    "rank 5": lambda d: (fresh(2, 3, 4, 5, 6, dtype=d).permute(4, 2, 0, 3, 1), fresh(6, 4, 2, 5, 1, dtype=d)),
    "one element": lambda d: (fresh(1, dtype=d), fresh(1, 1, dtype=d)),
}


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("bits", [32, 64])
def test_layouts(dtype, name, bits, monkeypatch):
    if bits == 64:
        monkeypatch.setattr(plan, "INDEX32_LIMIT", 0)
    x, y = LAYOUTS[name](dtype)
    fn = numjit.elementwise(lambda x, y: x + y)
    got, want = fn(x, y), x + y
    assert got.stride() == want.stride()
    assert torch.equal(got, want)


def test_mixed_dtypes_values_and_outputs():
    x, y, c = fresh(7000), fresh(7000, dtype=torch.float16), fresh(7000, dtype=torch.bool)
    assert torch.equal(add(x, y), x + y)
    assert torch.equal(select(c, x, y, shift=2.0), torch.where(c, x, y.float()) + 2.0)
    a, b = two(x, x)
    assert torch.equal(a, x - x)
    assert torch.equal(b, x * x)


def test_in_place_and_strided_out():
    x = fresh(50, 64)
    want = x + x
    out = torch.zeros(64, 100, device="cuda").t()[::2]
    assert add(x, x, out=out) is out
    assert torch.equal(out, want)
    add(x, x, out=x)
    assert torch.equal(x, want)


def test_conj_and_neg_views():
    z = torch.randn(999, dtype=torch.complex64, device="cuda")
    assert torch.equal(same(z.conj()), z.conj().resolve_conj())
    assert torch.equal(same(z.conj().imag), -z.imag)
