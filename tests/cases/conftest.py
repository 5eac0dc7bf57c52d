"""Fixtures of the acceptance cases."""

import importlib

import pytest


@pytest.fixture
def compilations(monkeypatch):
    """Count what is compiled: loops of the CPU, kernels linked for a GPU."""
    found = []

    def count(module, name):
        original = getattr(module, name)

        def counted(*arguments, **keywords):
            found.append(name)
            return original(*arguments, **keywords)

        monkeypatch.setattr(module, name, counted)

    count(importlib.import_module("numjit.cpu.cpp_loop"), "build_chunk")
    count(importlib.import_module("numjit.cpu.python_loop"), "build_chunk")
    count(importlib.import_module("numjit.call.build"), "link_kernel")
    return found
