"""What CUDA's and the standard library's names give, on each device."""

import numpy as np
import torch

import numjit


def test_bytes_and_shifts_across_two_words(device):
    source = torch.Generator().manual_seed(1)
    low, high, by = (torch.randint(0, 2**32, (500,), generator=source) for _ in range(3))
    text = """void f(unsigned l, unsigned h, unsigned s, unsigned& bytes, unsigned& left, unsigned& right,
                     unsigned& left_c, unsigned& right_c) {
        bytes = __byte_perm(l, h, s);
        left = __funnelshift_l(l, h, s); right = __funnelshift_r(l, h, s);
        left_c = __funnelshift_lc(l, h, s >> 26); right_c = __funnelshift_rc(l, h, s >> 26);
    }"""
    given = [x.to(torch.uint32).to(device) for x in (low, high, by)]
    got = [x.cpu().numpy().astype(np.int64) for x in numjit.elementwise(text)(*given)]
    both = high.numpy().astype(object) << 32 | low.numpy().astype(object)
    for k, (word, selector) in enumerate(zip(both, by.tolist(), strict=True)):
        wanted = 0
        for place in range(4):
            which = selector >> 4 * place & 7
            wanted |= (word >> 8 * which & 255) << 8 * place
        shift, clamped = selector & 31, min(selector >> 26, 32)
        assert got[0][k] == wanted
        assert got[1][k] == (word << shift) >> 32 & 0xFFFFFFFF
        assert got[2][k] == word >> shift & 0xFFFFFFFF
        assert got[3][k] == (word << clamped) >> 32 & 0xFFFFFFFF
        assert got[4][k] == word >> clamped & 0xFFFFFFFF


def test_copies_of_bits(device):
    text = """void f(float x, int& a, int& b, int& c) {
        a = std::bit_cast<int>(x); std::memcpy(&b, &x, sizeof b);
        std::array<float, 2> both{1.0f, x}; memcpy(&c, &both[1], sizeof c);
    }"""
    x = torch.tensor([0.0, -0.0, 1.5, float("inf"), float("nan"), 1e-42], device=device)
    for got in numjit.elementwise(text)(x):
        assert torch.equal(got, x.view(torch.int32))


def test_lerp_keeps_its_ends_and_does_not_overshoot(device):
    a = torch.tensor([0.1, -3.0, 1e30, 0.3, 2.0], device=device)
    b = torch.tensor([0.7, 5.0, -1e30, 0.3, 2.5], device=device)
    lerp = numjit.elementwise("template <typename T> T f(T a, T b, T t) { return std::lerp(a, b, t); }")
    assert torch.equal(lerp(a, b, 0.0), a)
    assert torch.equal(lerp(a, b, 1.0), b)
    torch.testing.assert_close(lerp(a, b, 0.25), torch.lerp(a, b, 0.25))


def test_short_vectors(device):
    text = """float f(float x, float y) {
        float4 v = make_float4(x, y, x * y, 1.0f); uchar4 c{1, 2, 3, 4}; double2 d = make_double2(x, y);
        return v.x + v.y * v.z + v.w + c.w + float(d.y) + float(sizeof(v) + sizeof(c) + alignof(float4));
    }"""
    x, y = torch.tensor([1.0, 2.0], device=device), torch.tensor([3.0, -4.0], device=device)
    got = numjit.elementwise(text)(x, y)
    torch.testing.assert_close(got, x + y * (x * y) + 1 + 4 + y + (16 + 4 + 16))
