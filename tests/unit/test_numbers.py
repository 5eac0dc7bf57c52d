"""Numbers by value: what they count as, and the bytes in which they reach a kernel."""

import enum
import math
import struct

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from numjit import dtypes
from numjit.arrays import numbers
from numjit.arrays.adapters import view
from numjit.errors import ArgumentError
from tests.support.packing import kernel_slot, packed

COMPUTE = {
    "bool": "?", "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
    "int8": "b", "int16": "h", "int32": "i", "int64": "q",
    "float32": "f", "float64": "d", "complex64": "ff", "complex128": "dd",
}  # fmt: skip


def unpacked(value, dtype):
    """What the seam bytes of `value` say."""
    parts = struct.unpack("=" + COMPUTE[dtype.compute_name], packed(value, dtype))
    return parts if dtype.is_complex else parts[0]


class Flag(enum.IntEnum):
    SEVEN = 7


class TestNumberType:
    @pytest.mark.parametrize(
        ("value", "dtype"),
        [
            (True, "bool"), (3, "int64"), (-(2**63), "int64"), (2**63 - 1, "int64"),
            (2**63, "uint64"), (2**64 - 1, "uint64"), (Flag.SEVEN, "int64"),
            (2.5, "float64"), (math.nan, "float64"), (1j, "complex128"),
            (np.bool_(True), "bool"), (np.int8(3), "int64"), (np.uint64(5), "int64"),
            (np.uint64(2**63), "uint64"),
            (np.float16(2), "float64"), (np.float32(2), "float64"), (np.float64(2), "float64"),
            (np.longdouble(2), "float64"), (np.complex64(1j), "complex128"),
            (np.complex128(1j), "complex128"),
        ],
    )  # fmt: skip
    def test_numbers(self, value, dtype):
        assert numbers.number_type(value) is dtypes.from_name(dtype)
        plain = numbers.as_python(value)
        assert type(plain) in (bool, int, float, complex)
        assert plain == value or plain != plain

    @pytest.mark.parametrize(
        "value", [None, "a", b"a", [1], (1,), {}, np.array(1.0), torch.tensor(1.0), object()]
    )
    def test_what_is_no_number(self, value):  # D6
        assert numbers.number_type(value) is None
        with pytest.raises(TypeError, match="is no number"):
            numbers.as_python(value)

    @pytest.mark.parametrize(
        "value", [np.datetime64("2020-01-01"), np.timedelta64(1, "s"), np.str_("a"), np.void(b"ab")]
    )
    def test_numpy_scalars_that_are_no_numbers(self, value):
        assert numbers.number_type(value) is None

    @pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 10**30])
    def test_integers_out_of_range(self, value):
        with pytest.raises(ArgumentError, match="neither int64 nor uint64"):
            numbers.number_type(value)
        with pytest.raises(TypeError):
            numbers.as_python(value)

    def test_ml_dtypes_scalars(self):
        ml_dtypes = pytest.importorskip("ml_dtypes")
        for name in ("bfloat16", "float8_e4m3fn"):
            value = getattr(ml_dtypes, name)(1.5)
            assert numbers.number_type(value) is dtypes.float64
            assert numbers.as_python(value) == 1.5


class TestZeroDim:
    @pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
    def test_reads_what_torch_reads(self, dtype):
        values = [0, 1, 3] if dtype.kind in "ub" else [0, 1, -3, -1]
        if dtype.kind in "fc":
            values += [0.1, -0.0, 2.5, 448.0, 1e-3]
        for value in values:
            tensor = torch.tensor(value, dtype=torch.float64 if dtype.kind == "f" else None).to(
                getattr(torch, dtype.name)
            )
            read = numbers.read_element(view(tensor))
            assert (read, type(read)) == (tensor.item(), type(tensor.item()))
            assert math.copysign(1, complex(read).real) == math.copysign(1, complex(tensor.item()).real)

    @pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
    def test_every_float8(self, name):
        for byte in range(256):
            tensor = torch.tensor(byte, dtype=torch.uint8).view(getattr(torch, name))
            read = numbers.read_element(view(tensor))
            assert struct.pack("d", read)[:-1] == struct.pack("d", tensor.item())[:-1] or (
                math.isnan(read) and math.isnan(tensor.item())
            )
            assert math.isnan(read) or math.copysign(1, read) == math.copysign(1, tensor.item())

    @given(st.integers(0, 2**16 - 1))
    @settings(max_examples=100, deadline=None)
    def test_bfloat16_and_float16(self, bits):
        for dtype in (torch.bfloat16, torch.float16):
            tensor = torch.tensor(bits, dtype=torch.uint16).view(dtype)
            read = numbers.read_element(view(tensor))
            assert read == tensor.item() or (math.isnan(read) and math.isnan(tensor.item()))

    def test_numpy_conj_neg_and_odd_bool(self):
        assert numbers.read_element(view(np.array(2.5, "f4"))) == 2.5
        tensor = torch.tensor(1 + 2j)
        assert numbers.read_element(view(tensor.conj())) == 1 - 2j
        assert numbers.read_element(view(tensor.conj().imag)) == -2
        assert numbers.read_element(view(torch.tensor(4, dtype=torch.uint8).view(torch.bool))) is True
        assert numbers.read_element(view(torch.zeros((), requires_grad=True))) == 0


class TestPack:
    @pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
    def test_sizes_and_slots(self, dtype):
        size = dtype.compute.itemsize
        seam = packed(1, dtype)
        assert len(seam) == size
        kernel, chunk = kernel_slot(1, dtype), numbers.chunk_slot(1, dtype)
        assert (len(kernel), len(chunk)) == (16 if dtype is dtypes.complex128 else 8, 16)
        assert kernel[:size] == chunk[:size] == seam
        assert not any(kernel[size:] + chunk[size:])
        assert struct.calcsize("=" + numbers.slot_format(dtype)) == len(kernel)
        assert unpacked(1, dtype) == ((1, 0) if dtype.is_complex else 1)

    def test_scalars_stay_in_the_compute_type(self):  # A3
        assert unpacked(70000.0, dtypes.float16) == 70000
        assert unpacked(0.1, dtypes.bfloat16) == np.float32(0.1)

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308])
    def test_float64_is_bit_exact(self, value):
        assert packed(value, dtypes.float64) == struct.pack("=d", value)
        assert packed(complex(-0.0, value), dtypes.complex128) == struct.pack("=dd", -0.0, value)

    def test_nan_payloads(self):
        payload = struct.unpack("=d", struct.pack("=Q", 0xFFF8_0000_DEAD_BEEF))[0]
        assert struct.unpack("=Q", packed(payload, dtypes.float64)) == (0xFFF8_0000_DEAD_BEEF,)
        bits = torch.tensor(0x7FC12345, dtype=torch.int32)
        value = numbers.read_element(view(bits.view(torch.float32)))
        assert struct.unpack("=I", packed(value, dtypes.float32)) == (0x7FC12345,)

    @given(st.floats(allow_nan=False))
    @example(3.4028235677973366e38)
    @example(3.4028235677973362e38)
    @example(-3.4028234663852887e38)
    @example(1e300)
    @example(-0.0)
    @settings(max_examples=200, deadline=None)
    def test_float32_rounds_as_torch(self, value):
        expected = torch.tensor(value, dtype=torch.float64).to(torch.float32).item()
        assert struct.pack("=f", expected) == packed(value, dtypes.float32)

    @given(st.integers(-(2**63), 2**64 - 1))
    @example(2**24 + 1)
    @example((1 << 60) + (1 << 36) + 1)  # a double in between would round it down
    @example(-(1 << 60) - (1 << 36) - 1)
    @example(2**64 - 1)
    @settings(max_examples=200, deadline=None)
    def test_integers_round_once(self, value):
        dtype = torch.int64 if value < 2**63 else torch.uint64
        assert unpacked(value, dtypes.float32) == torch.tensor(value, dtype=dtype).to(torch.float32).item()
        assert unpacked(value, dtypes.float64) == float(value)

    @given(st.integers(-(2**63), 2**63 - 1), st.sampled_from([d for d in dtypes.ALL if d.is_integral]))
    @settings(max_examples=200, deadline=None)
    def test_integers_wrap_as_torch(self, value, dtype):
        assert unpacked(value, dtype) == torch.tensor(value).to(getattr(torch, dtype.name)).item()

    @given(
        st.floats(-(2**31) + 1, 2**31 - 1) | st.sampled_from([-3.7, 300.5]),
        st.sampled_from([d for d in dtypes.ALL if d.is_integral]),
    )
    @settings(max_examples=200, deadline=None)
    def test_floats_truncate_as_torch(self, value, dtype):
        expected = torch.tensor(value, dtype=torch.float64).to(getattr(torch, dtype.name)).item()
        assert unpacked(value, dtype) == expected

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e30])
    @pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if d.is_integral], ids=str)
    def test_floats_that_no_integer_holds_do_not_raise(self, value, dtype):
        assert isinstance(unpacked(value, dtype), int)

    def test_unsigned_floats(self):
        assert unpacked(1e19, dtypes.uint64) == 10**19
        assert unpacked(-3.7, dtypes.uint64) == 2**64 - 3

    @pytest.mark.parametrize(
        ("value", "expected"), [(math.nan, 1), (-0.0, 0), (0.1, 1), (1j, 1), (0j, 0), (256, 1)]
    )
    def test_bool(self, value, expected):
        assert packed(value, dtypes.bool_) == bytes([expected])

    def test_complex(self):
        assert unpacked(1 - 2j, dtypes.complex32) == (1, -2)
        assert unpacked(2, dtypes.complex64) == (2, 0)
        assert unpacked(3 - 2j, dtypes.float32) == 3
        assert unpacked(3.5 - 2j, dtypes.int16) == 3
        assert unpacked(complex(1e300, -1e300), dtypes.complex64) == (math.inf, -math.inf)
