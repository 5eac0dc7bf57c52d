"""Faults of warm calls, of what is kept on disk, and of settings."""

from tests.mutants import Mutant

_ODD = "tests/cases/test_warm_odd_operands.py"

MUTANTS = [
    Mutant(
        "D1 warm calls",
        "numjit/call/warm.py",
        """                    if pointer < LOW and is_nowhere(obj):
                        return None
""",
        "",
        _ODD,
    ),
    Mutant(
        "D1 parts of what has no memory",
        "numjit/arrays/torch_arrays.py",
        "if pointer % dtype.itemsize or (pointer < LOW and is_nowhere(tensor)):",
        "if not pointer or pointer % dtype.itemsize:",
        _ODD,
    ),
    Mutant(
        "D1 exporters without memory",
        "numjit/arrays/dlpack.py",
        "        if pointer < FIRST_ADDRESS:\n",
        "        if False:\n",
        _ODD,
    ),
    Mutant(
        "D1 the launcher",
        "numjit/launcher/program.py",
        '        self.jump_if(self.compare("==", place, self.mul(start, size)), self._fail)\n',
        "",
        "tests/unit/test_launcher_edges.py::TestOddOperands",
    ),
    Mutant(
        "D4 names are not bound",
        "numjit/cache/disk.py",
        """    hashed = hashlib.sha256(f"{key}{suffix}\\0".encode())
""",
        """    hashed = hashlib.sha256()
""",
        "tests/cases/test_disk_damaged.py tests/unit/test_disk_and_cache_memory.py",
    ),
    Mutant(
        "D4 what does not load is an error",
        "numjit/cache/disk.py",
        """            self.discard(key, suffix)
            return None

    def discard""",
        """            raise

    def discard""",
        "tests/cases/test_disk_damaged.py",
    ),
    Mutant(
        "D4 objects cut short",
        "numjit/cache/elf.py",
        """    if len(image) < _HEADER.size:
""",
        """    if machine is None:
        return ""
    if len(image) < _HEADER.size:
""",
        "tests/cases/test_disk_damaged.py tests/unit/test_disk_trust.py",
    ),
    Mutant(
        "D4 code that does not link",
        "numjit/call/build.py",
        """        if not from_disk:
            raise
        for file in stored:""",
        """        raise
        for file in stored:""",
        "tests/compile/test_build_on_disk.py",
    ),
    Mutant(
        "D4 PTX taken for a damaged cubin",
        "numjit/runtime/launch.py",
        'fault = "" if is_ptx else elf_fault(cubin, CUDA)',
        "fault = elf_fault(cubin, CUDA)",
        "tests/unit/test_driver_and_launch_and_devices.py",
    ),
    Mutant(
        "D5 folders of others",
        "numjit/cache/disk.py",
        "        if not (_is_own(link) and _is_own(folder)):\n",
        "        if False:\n",
        "tests/unit/test_disk_trust.py",
    ),
    Mutant(
        "D5 folders that others write",
        "numjit/cache/disk.py",
        """    return bool(group or folder.st_mode & stat.S_IWOTH)
""",
        """    return bool(group)
""",
        "tests/unit/test_disk_trust.py",
    ),
    Mutant(
        "D5 files of others",
        "numjit/cache/disk.py",
        "                if not _is_own(os.fstat(file.fileno())):\n",
        "                if False:\n",
        "tests/unit/test_disk_trust.py tests/cases/test_disk_damaged.py",
    ),
    Mutant(
        "D5 the umask",
        "numjit/cache/disk.py",
        """        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
""",
        """        with contextlib.suppress(FileExistsError):
            folder.mkdir()
""",
        "tests/unit/test_disk_trust.py",
    ),
    Mutant(
        "D5 no home",
        "numjit/config.py",
        '/ f"numjit-{number}"',
        '/ "numjit"',
        "tests/unit/test_disk_trust.py",
    ),
    Mutant(
        "B4 settings are not looked at",
        "numjit/cache/disk.py",
        "        config.check()\n",
        "",
        "tests/unit/test_disk_trust.py",
    ),
    Mutant(
        "B4 a limit of 0",
        "numjit/cache/disk.py",
        """        if not self._limit:
            return False
        try:
            link""",
        """        try:
            link""",
        "tests/unit/test_disk_trust.py",
    ),
    Mutant(
        "D4 file systems that fail",
        "numjit/cache/disk.py",
        "os.path.exists(self.path(key, suffix))",
        "self.path(key, suffix).exists()",
        "tests/unit/test_disk_trust.py",
    ),
    Mutant(
        "D12 sizes and dates of sources",
        "numjit/cache/keys.py",
        'for part in (name, _contents(f"{root}/{name}"))',
        "for part in (name, str(os.stat(root / name)[6:9:2]))",
        "tests/unit/test_cache_keys.py",
    ),
    Mutant(
        "D12 the system's compilers",
        "numjit/call/build.py",
        "        *identities(),\n",
        "",
        "tests/unit/test_cache_keys.py",
    ),
    Mutant(
        "D15 loops in Numba's engine",
        "numjit/cpu/python_loop.py",
        """    def _add_module(self, _module: Any) -> None:
        return None
""",
        """    def _add_module(self, module: Any) -> None:
        self.real._add_module(module)
""",
        "tests/cpu/test_object_code.py",
    ),
]
