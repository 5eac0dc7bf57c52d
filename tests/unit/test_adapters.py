"""Which objects are arrays, which may be written, and what reading one imports."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from numjit.arrays import adapters
from numjit.arrays.adapters import view, writable_view
from numjit.errors import OutputError, UnsupportedArrayError


class TestDispatch:
    @pytest.mark.parametrize(
        "obj", [1, 2.5, True, 1j, None, "a", b"a", [1], (1,), {}, np.int8(1), object(), torch.Tensor, np]
    )
    def test_what_is_no_array(self, obj):
        assert view(obj) is None

    def test_output_that_is_no_array(self):
        with pytest.raises(UnsupportedArrayError, match="result is a list"):
            writable_view([1.0], "result")

    def test_types_do_not_pile_up(self):
        for _ in range(adapters._MOST_READERS + 10):
            view(type("Fleeting", (), {})())
        assert len(adapters._readers) <= adapters._MOST_READERS

    def test_outputs_of_torch(self):
        leaf = torch.zeros(3, requires_grad=True)
        with pytest.raises(OutputError, match="requires grad"):
            writable_view(leaf)
        with torch.no_grad():
            assert writable_view(leaf).original is leaf
        with pytest.raises(OutputError, match="conj bit"):
            writable_view(torch.zeros(3, dtype=torch.complex64).conj())

    def test_torch_is_not_imported(self):
        code = (
            "import sys, numpy\n"
            "from numjit.arrays import adapters, allocate, numbers, streams\n"
            "from numjit.runtime import devices, driver, launch, streams\n"
            "assert adapters.view(numpy.zeros(3)).library == 'numpy'\n"
            "assert adapters.view(object()) is None and adapters.view(2.0) is None\n"
            "assert not {'torch', 'numba', 'cuda', 'cupy', 'ml_dtypes'} & set(sys.modules)\n"
            "import torch\n"
            "assert adapters.view(torch.zeros(3)).library == 'torch'\n"
        )
        subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
