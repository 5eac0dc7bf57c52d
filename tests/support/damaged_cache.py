"""Every file of a cache damaged in each way, then used: a program that a crash of ends with a name.

Argument: the device. It prints a line as it begins a way and one as it ends it: the kinds of files there
were, how many answers were wrong, how many warnings came, and which files were not made anew.
"""

from __future__ import annotations

import os
import shutil
import sys
import warnings

import torch

import numjit
from numjit.cache import default_store
from numjit.call import build
from numjit.call.arguments import default_dtype
from numjit.functor.device_function import argument_types
from numjit.launcher import machine


def _add(x, y):
    return x + y


def _cross(x, y):
    return x * y - 100


SOURCES = (
    _add,
    _cross,
    "template <typename T> T add(T x, T y) { return x + y; }",
    "template <typename T> auto cross(T x, T y) { return x * y - T(100); }",
)


def answers(device):
    """Return what four functors answer, all that is in memory forgotten."""
    for memory in (build._chunks, build._specialisations, build._kernels):
        memory.clear()
    x, y = torch.arange(4.0, device=device), torch.full((4,), 3.0, device=device)
    found = [numjit.elementwise(source)(x, y).tolist() for source in SOURCES]
    for functor in (numjit.elementwise(SOURCES[0]).functor, numjit.elementwise(SOURCES[2]).functor):
        arguments = argument_types(functor, ["float32", "float32"])
        specialisation = build.specialise(functor, arguments, default_dtype(), "cuda")
        found.append(build.device_code(functor, specialisation, (9, 0))[:0])
    machine.load.__wrapped__()
    return found


def files():
    return sorted(path for path in default_store().folder.glob("??/*") if path.is_file())


def payloads():
    """Return what each file holds; None of one that is not intact."""
    store = default_store()
    return {path: store.get(path.name[:64], path.name[64:]) for path in files()}


# ----------------------------------------------------------------------------------- ways of damage


def exchanged_with_its_kind(found):
    """Each file becomes another of the same kind."""
    for suffix in {path.name[64:] for path in found}:
        _rotate([path for path in found if path.name.endswith(suffix)])


def exchanged_with_another_kind(found):
    """Each file becomes one of another kind."""
    _rotate(sorted(found, key=lambda path: (path.name[:64], path.name)))


def _rotate(found):
    contents = [path.read_bytes() for path in found]
    for path, content in zip(found, [*contents[1:], contents[0]], strict=True):
        path.write_bytes(content)


def cut_short(found):
    for path in found:
        path.write_bytes(path.read_bytes()[:-50])


def emptied(found):
    for path in found:
        path.write_bytes(b"")


def a_bit_flipped(found):
    for path in found:
        raw = bytearray(path.read_bytes())
        raw[len(raw) // 3] ^= 4
        path.write_bytes(raw)


def directories(found):
    for path in found:
        path.unlink()
        path.mkdir()


def links_to_another(found):
    contents = {path: path.read_bytes() for path in found}
    for path, other in zip(found, [*found[1:], found[0]], strict=True):
        target = path.with_name("kept-" + path.name)
        target.write_bytes(contents[other])
        path.unlink()
        path.symlink_to(target)


def dangling_links(found):
    for path in found:
        path.unlink()
        path.symlink_to("nowhere")


def of_another_user(found):
    """Files that another user planted; only root can make some."""
    for path in found:
        os.chown(path, 12345, 12345)


def _signed(make):
    def damage(found):
        store = default_store()
        for path, payload in payloads().items():
            store.put(path.name[:64], path.name[64:], make(payload))

    return damage


WAYS = {
    "exchanged with its kind": exchanged_with_its_kind,
    "exchanged with another kind": exchanged_with_another_kind,
    "cut short": cut_short,
    "emptied": emptied,
    "a bit flipped": a_bit_flipped,
    "directories": directories,
    "links to another": links_to_another,
    "dangling links": dangling_links,
    "signed garbage": _signed(lambda payload: bytes(byte ^ 0xA5 for byte in payload)),
    "signed text": _signed(lambda payload: b"{}"),
    "signed and empty": _signed(lambda payload: b""),
    "signed and cut short": _signed(lambda payload: payload[: len(payload) // 2]),
}
if hasattr(os, "geteuid") and os.geteuid() == 0:
    WAYS["of another user"] = of_another_user


def main():
    """Run all ways but those named."""
    device, *done = sys.argv[1:]
    folder = default_store().folder
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = answers(device)
    before = {path: payload for path, payload in payloads().items() if payload is not None}
    kept = folder.with_name("kept-" + folder.name)
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(folder, kept)
    kinds = " ".join(sorted({path.name[64:] for path in before}))
    for way, damage in WAYS.items():
        if way in done:
            continue
        print(f"begin\t{way}", flush=True)
        damage(list(before))
        default_store()._warned.clear()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            found = answers(device)
        wrong = sum(a != b for a, b in zip(found, expected, strict=True))
        about = sum("numjit" in str(warning.message) for warning in warned)
        left = " ".join(sorted({path.name[64:] for path in before if payloads().get(path) is None}))
        print("end", way, kinds, wrong, about, left, sep="\t", flush=True)
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)


if __name__ == "__main__":
    main()
