"""Views of torch tensors: every dtype and layout, bits, subclasses, fakes, and those that are refused."""

import warnings

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from numjit import dtypes
from numjit.arrays.adapters import view, writable_view
from numjit.arrays.view import CPU, META, cuda
from numjit.errors import OutputError, UnsupportedArrayError, UnsupportedDtypeError
from tests.support.array_producers import strided


class TestTorch:
    @pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
    def test_every_dtype(self, dtype):
        tensor = torch.zeros(3, 4, dtype=getattr(torch, dtype.name))
        seen = view(tensor)
        assert seen.dtype is dtype
        assert (seen.pointer, seen.shape, seen.strides) == (tensor.data_ptr(), (3, 4), (4, 1))
        assert (seen.device, seen.library) == (CPU, "torch")
        assert seen.owner is tensor
        assert seen.original is tensor
        assert not any((seen.conj, seen.neg, seen.readonly, seen.requires_grad, seen.fake, seen.copied))

    def test_strided_views(self):
        base = torch.arange(24.0).view(2, 3, 4)
        for tensor in (
            base.permute(2, 0, 1),
            base[:, ::2],
            base[1:, 2:, 3:],
            base[0, 0, 0],
            base.expand(5, 2, 3, 4),
        ):
            seen = view(tensor)
            assert (seen.shape, seen.strides, seen.pointer) == (
                tensor.shape,
                tensor.stride(),
                tensor.data_ptr(),
            )

    def test_conj_and_neg_bits(self):
        tensor = torch.tensor([1 + 2j, 3 - 4j])
        assert (view(tensor.conj()).conj, view(tensor.conj()).neg) == (True, False)
        assert (view(tensor.conj().imag).conj, view(tensor.conj().imag).neg) == (False, True)
        assert view(tensor.conj()).pointer == tensor.data_ptr()

    def test_requires_grad_and_parameter(self):
        assert view(torch.zeros(3, requires_grad=True)).requires_grad
        parameter = torch.nn.Parameter(torch.zeros(3))
        assert view(parameter).requires_grad
        assert view(parameter).pointer == parameter.data_ptr()

    def test_user_subclass(self):
        class Mine(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, classes, args=(), kwargs=None):
                raise AssertionError("a view runs no user code")

        tensor = torch.zeros(2, 3).as_subclass(Mine)
        assert view(tensor).strides == (3, 1)
        assert view(tensor).original is tensor

    def test_meta(self):
        seen = view(torch.empty(3, 4, device="meta").t())
        assert (seen.pointer, seen.device, seen.strides, seen.fake, seen.has_memory) == (
            0,
            META,
            (1, 4),
            False,
            False,
        )

    def test_fake_tensors_of_both_devices(self):
        with FakeTensorMode():
            fakes = [torch.empty(3, 4, dtype=torch.bfloat16, device=device) for device in ("cpu", "cuda:1")]
        for fake, device in zip(fakes, (CPU, cuda(1)), strict=True):
            seen = view(fake.t())
            assert (seen.pointer, seen.device, seen.strides, seen.fake) == (0, device, (1, 4), True)
            assert (seen.dtype, seen.has_memory, seen.library) == (dtypes.bfloat16, False, "torch")

    def test_no_elements(self):
        seen = view(torch.empty(4, 0, 3))
        assert (seen.pointer, seen.shape) == (0, (4, 0, 3))

    def test_zero_tensor_is_materialised(self):
        seen = view(torch._efficientzerotensor((3,)))
        assert seen.copied
        assert strided(seen).tolist() == [0, 0, 0]

    def test_misaligned_elements_are_copied(self):
        tensor = torch.frombuffer(
            bytearray(b"\0" + np.arange(4, dtype="f4").tobytes()), dtype=torch.float32, offset=1
        )
        if tensor.data_ptr() % 4 == 0:
            pytest.skip("the allocator put the odd bytes on an aligned address")
        seen = view(tensor)
        assert seen.copied
        assert seen.original is tensor
        assert strided(seen).tolist() == [0, 1, 2, 3]
        with pytest.raises(OutputError, match="not aligned"):
            writable_view(tensor)

    def test_complex_at_an_address_aligned_for_its_parts_is_no_copy(self):
        array = np.zeros(9).view(np.float64)[1:].view(np.complex128)
        tensor = torch.from_numpy(array)
        assert not view(tensor).copied

    def test_refusals_name_the_remedy(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cases = [
                (torch.eye(3).to_sparse(), "to_dense"),
                (torch.eye(3).to_sparse_csr(), "to_dense"),
                (torch.eye(3).to_mkldnn(), "to_dense"),
                (torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.quint8), "dequantize"),
                (torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), "to_padded_tensor"),
                (
                    torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.jagged),
                    "to_padded",
                ),
            ]
        for tensor, remedy in cases:
            with pytest.raises(UnsupportedArrayError, match=remedy):
                view(tensor)
            with pytest.raises(TypeError):
                view(tensor)

    def test_wrapper_subclass_is_refused(self):
        class Wrapper(torch.Tensor):
            @staticmethod
            def __new__(cls):
                return torch.Tensor._make_wrapper_subclass(cls, (3,), dtype=torch.float32)

            @classmethod
            def __torch_dispatch__(cls, function, classes, args=(), kwargs=None):
                raise AssertionError("a view dispatches nothing")

        with pytest.raises(UnsupportedArrayError, match="Wrapper has no memory of its own"):
            view(Wrapper())

    def test_transforms_are_refused_and_recognised(self):
        def peek(tensor):
            from numjit.arrays.torch_arrays import is_transformed

            assert is_transformed(tensor)
            with pytest.raises(UnsupportedArrayError, match=r"torch\.func"):
                view(tensor)
            return tensor.sum()

        torch.vmap(peek)(torch.zeros(3, 2))
        torch.func.grad(peek)(torch.zeros(3))

    def test_unsupported_dtype_is_named(self):
        with pytest.raises(UnsupportedDtypeError, match="float8_e8m0fnu"):
            view(torch.empty(3, dtype=torch.float8_e8m0fnu))
