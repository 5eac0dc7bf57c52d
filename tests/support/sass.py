"""Reads cubins: what instructions and resources a kernel ended up with."""

import functools
import pathlib
import re
import subprocess
import sysconfig
import tempfile

import pytest


@functools.cache
def tool(name):
    """Path of one of CUDA's binary tools as the wheels install it, or skip the test."""
    roots = {pathlib.Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}
    for root in roots:
        for found in sorted(root.glob(f"nvidia/*/bin/{name}")):
            return str(found)
    import shutil

    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm)")
    return found


class Cubin:
    """A cubin's disassembly and resource usage."""

    def __init__(self, image):
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(image)
            file.flush()
            self.text = self._dump("--dump-sass", file.name)
            self.usage = self._dump("--dump-resource-usage", file.name)

    @staticmethod
    def _dump(option, path):
        done = subprocess.run([tool("cuobjdump"), option, path], capture_output=True, text=True, check=True)
        return done.stdout

    @property
    def opcodes(self):
        """Every instruction's opcode with its modifiers, in order."""
        pattern = r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)"
        return re.findall(pattern, self.text)

    def count(self, pattern):
        """How many opcodes match a regular expression from their start."""
        return sum(bool(re.match(pattern, opcode)) for opcode in self.opcodes)

    @property
    def registers(self):
        return int(re.search(r"REG:(\d+)", self.usage).group(1))

    @property
    def stack(self):
        return int(re.search(r"STACK:(\d+)", self.usage).group(1))

    def assert_lean(self):
        """No call, no local memory."""
        assert self.count(r"CALL") == 0, "the kernel calls a function"
        assert self.count(r"(LDL|STL)\b") == 0, "the kernel uses local memory"
        assert self.stack == 0, f"the kernel has a stack of {self.stack} bytes"
