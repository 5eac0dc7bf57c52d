"""What is said of every array: its device, which exists once."""

import copy
import pickle

import pytest
import torch

from numjit.arrays.view import CPU, META, Device, as_device, cuda
from numjit.errors import DeviceError


class TestDevice:
    def test_is_interned_and_survives_pickle_and_copy(self):
        assert Device("cuda", 1) is cuda(1)
        assert pickle.loads(pickle.dumps(cuda(3))) is cuda(3)
        assert copy.deepcopy(CPU) is CPU
        assert len({CPU, META, cuda(0), cuda(1), cuda(0)}) == 4

    def test_reads_like_torch(self):
        for text in ("cpu", "meta", "cuda:1"):
            assert str(as_device(text)) == text
            assert as_device(torch.device(text)) is as_device(text)
        assert as_device(cuda(2)) is cuda(2)

    @pytest.mark.parametrize("bad", ["mps", "cuda:x", 3, "cuda:-1"])
    def test_others_are_refused(self, bad):
        with pytest.raises(DeviceError, match="no device"):
            as_device(bad)
