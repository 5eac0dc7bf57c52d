"""On which stream a call runs, and after which streams."""

import sys
import types

import pytest

from numjit.arrays import streams
from numjit.arrays.view import cuda
from tests.support.array_producers import fake_view


class TestStreams:
    @pytest.fixture(autouse=True)
    def _torch_stream(self, monkeypatch):
        monkeypatch.setattr(streams, "torch_stream", lambda index: 0x1000 + index)

    def test_torch_operand_or_output(self):
        operands = [fake_view("interface", cuda(1), stream=7), fake_view("torch", cuda(1))]
        assert streams.launch_stream(operands, 1) == 0x1001
        assert streams.launch_stream(operands[:1], 1, "torch") == 0x1001

    def test_stream_entry_of_the_first(self):
        operands = [fake_view("numpy", shape=()), fake_view("interface", cuda(0), stream=7)]
        operands.append(fake_view("interface", cuda(0), stream=9))
        assert streams.launch_stream(operands, 0, "numba") == 7
        assert streams.launch_stream([fake_view("interface", cuda(0))], 0, "numba") == 1
        assert streams.launch_stream([], 0) == 1

    def test_cupy(self, monkeypatch):
        class Where:
            def __init__(self, index):
                self.index = index

            def __enter__(self):
                where.append(self.index)

            def __exit__(self, *error):
                where.pop()

        where = []
        current = types.SimpleNamespace(
            Device=Where, get_current_stream=lambda: types.SimpleNamespace(ptr=40 + where[-1])
        )
        monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=current))
        assert streams.launch_stream([fake_view("cupy", cuda(2), stream=9)], 2, "cupy") == 42

    def test_producers(self):
        views = [
            fake_view("torch", cuda(0)),
            *(fake_view("interface", cuda(0), stream=s) for s in (7, 9, 7, 1)),
        ]
        assert streams.producers(views, 7) == (9, 1)
        assert streams.producers(views, 0) == (7, 9)  # torch's 0 is the legacy stream, 1
        assert streams.producers(views[:1], 5) == ()
