"""What torch's dispatcher holds of an operator: schemas, and kernels that go on to whoever has the name now.

torch does not look whether a call of an operator is under way, or a reference to it left, when the operator
is taken away or defined anew: it frees what they use. So a name's place in the dispatcher is never given up,
its kernels outlive a registration that another replaces, and where they are freed, or the parameters become
others, calls that are under way return first. A thread that is about to enter a kernel waits for the
interpreter with its arguments counted already; of calls by ``torch.ops`` nobody knows before they are in
their kernel, so there is time for every thread to get the interpreter once.
"""

from __future__ import annotations

import collections
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from numjit.call.operation import Operation
from numjit.errors import FunctorError
from numjit.ground import apart
from numjit.torch.names import defining
from numjit.torch.nested import over_jagged

__all__ = ["Definition", "definition", "lock"]

#: Held while operators are registered, looked for, or taken away.
lock = apart.lock()
_definitions: dict[str, Definition] = {}
#: A dispatch key that no tensor has; with a kernel for it torch keeps the operator's place.
_ANCHOR = "TESTING_ONLY_GenericWrapper"
#: Seconds that calls have to return, and between looks at them.
_PATIENCE, _LOOK = 0.5, 0.001


def definition(namespace: str, base: str) -> Definition:
    """Return the definition of a name, one for the life of the process; the caller holds `lock`."""
    name = f"{namespace}::{base}"
    found = _definitions.get(name)
    if found is None:
        found = _definitions[name] = Definition(namespace, base)
    return found


class Owner(Protocol):
    """The operator that has a name: kernels, and what torch asks of an operator.

    Attributes
    ----------
    autocast
        The dtype that floating tensors are cast to under autocast, by device type.
    flops
        What an element counts in ``FlopCounterMode``.
    """

    autocast: dict[str, Any]
    flops: int

    @property
    def operation(self) -> Operation:
        """What it computes."""

    def compute(self, *args: Any, **kwargs: Any) -> Any:
        """Run a call below autograd."""

    def compute_out(self, *args: Any, **kwargs: Any) -> None:
        """Run such a call into given tensors."""

    def fake(self, *args: Any, **kwargs: Any) -> Any:
        """Return tensors like the results, of tensors that have no memory."""

    def fake_out(self, *args: Any, **kwargs: Any) -> None:
        """Check given outputs, of tensors that have no memory."""

    def vmap(self, info: Any, in_dims: tuple[Any, ...], *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Run over a batch."""


class Definition:
    """A name among torch's operators.

    Attributes
    ----------
    owner
        Whose functor calls run; None while nobody has the name.
    """

    def __init__(self, namespace: str, base: str) -> None:
        import torch

        self.owner: Owner | None = None
        self._namespace, self._base = namespace, base
        self._anchors = torch.library.Library(namespace, "IMPL")
        self._anchored: set[str] = set()
        self._schemas: Any = None
        self._kernels: Any = None
        #: Overloads with kernels, and pairs of one and a key that only some have.
        self._implemented: set[Any] = set()
        self._overloads: dict[str, Any] = {}
        self._kept: dict[str, Any] = {}
        #: The owner's kernels for autograd, by the name of their overload.
        self._autograd: dict[str, Callable[..., Any]] = {}
        #: One entry for each call under way; a deque's ends are safe between threads.
        self.inside: collections.deque[None] = collections.deque()
        #: The schemas that calls under way may have been read by.
        self._texts: tuple[str, ...] = ()

    # ---------------------------------------------------------------------------------- registration

    def begin(self, owner: Owner, texts: tuple[str, ...]) -> None:
        """Give the name to an operator that has it to itself from now on; `texts` are its schemas."""
        import torch

        self._forget()
        if self._texts not in ((), texts):
            self._settle()
        self._texts = texts
        self._schemas = torch.library.Library(self._namespace, "FRAGMENT")
        if self._kernels is None:
            self._kernels = torch.library.Library(self._namespace, "IMPL")
        self.owner = owner

    def end(self, owner: Owner) -> None:
        """Take the name from an operator, if it has it; calls of other threads return first."""
        with lock:
            if self.owner is not owner:
                return
            self.owner = None
            self._forget()
        is_calm = self._settle()
        with lock:
            if self.owner is None and is_calm and self._kernels is not None:
                self._implemented.clear()
                kernels, self._kernels = self._kernels, None
                kernels._destroy()

    def _settle(self) -> bool:
        """Let calls return, after the schemas are gone, so that no more begin; answers whether they have."""
        start = time.monotonic()
        # In this time every thread that waits for the interpreter gets it.
        least = max(3 * _LOOK, threading.active_count() * sys.getswitchinterval())
        while True:
            time.sleep(_LOOK)
            passed = time.monotonic() - start
            if (passed >= least and not self.inside) or passed > least + _PATIENCE:
                return not self.inside

    def _forget(self) -> None:
        self._autograd.clear()
        self._overloads.clear()
        if self._schemas is not None:
            schemas, self._schemas = self._schemas, None
            schemas._destroy()

    def add(
        self, overload: str, schema: str, tags: Sequence[Any], autograd: Callable[[Any], Callable[..., Any]]
    ) -> Any:
        """Define an overload and return it.

        Parameters
        ----------
        overload
            Its name, "" for the plain one.
        schema
            Its text.
        tags
            torch's, of what may be done with it.
        autograd
            Makes the kernel for torch's autograd keys of it.
        """
        import torch

        name = f"{self._base}.{overload}" if overload else self._base
        with defining():
            self._schemas.define(schema, tags=tuple(tags))
        if name not in self._anchored:
            self._anchors.impl(name, torch.library.fallthrough_kernel, _ANCHOR)
            self._anchored.add(name)
        packet = getattr(getattr(torch.ops, self._namespace), self._base)
        found = self._renewed(packet, overload or "default")
        self._autograd[name] = autograd(found)
        self._overloads[name] = found
        if name not in self._implemented:
            self._implement(name, is_out=overload == "out")
            self._implemented.add(name)
        if overload != "out":
            for device in self._owner().autocast:
                self._implement_autocast(name, device)
        return found

    def _renewed(self, packet: Any, overload: str) -> Any:
        """Return a packet's overload as the object that torch may have kept of an earlier definition.

        The place in torch's dispatcher refers to the first object that there was, without holding it.
        """
        found = getattr(packet, overload)
        kept = self._kept.setdefault(overload, found)
        if kept is not found:
            vars(kept).update(vars(found))
            setattr(packet, overload, kept)
        return kept

    def _implement(self, name: str, *, is_out: bool) -> None:
        import torch

        kernels, full = self._kernels, f"{self._namespace}::{name}"
        compute = self._kernel(lambda: self._owner().compute_out if is_out else self._owner().compute)
        for device in ("CPU", "CUDA"):
            kernels.impl(name, compute, device)
        kernels.impl(name, self._kernel(lambda: self._autograd_of(name)), "Autograd", with_keyset=True)
        fake = self._kernel(lambda: self._owner().fake_out if is_out else self._owner().fake)
        torch.library.register_fake(full, fake, lib=kernels)
        if is_out:
            return
        torch.library.register_vmap(full, self._kernel(lambda: self._owner().vmap), lib=kernels)
        self._teach_classes(full)

    def _teach_classes(self, full: str) -> None:
        """Tell modes and tensor classes of torch's what they do not know of an operator."""
        import torch
        from torch.nested._internal.nested_tensor import NestedTensor
        from torch.utils import flop_counter

        register = torch.library.register_torch_dispatch
        register(full, NestedTensor, self._over_jagged, lib=self._kernels)
        register(full, flop_counter._FlopCounterMode, self._count, lib=self._kernels)

    # --------------------------------------------------------------------------------------- kernels

    def _owner(self) -> Owner:
        owner = self.owner
        if owner is None:
            raise FunctorError(
                f"{self._namespace}::{self._base} was removed before this call came to its kernel; call an "
                "operator that is registered"
            )
        return owner

    def _autograd_of(self, name: str) -> Callable[..., Any]:
        return self._autograd.get(name) or self._lacks()

    def _lacks(self) -> Callable[..., Any]:
        self._owner()
        raise FunctorError(
            f"{self._namespace}::{self._base} was registered anew, with other parameters, before this call "
            "came to its kernel; call the new operator"
        )

    def _kernel(self, find: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
        """Return a kernel that calls what `find` answers at each call."""
        inside = self.inside

        def kernel(*args: Any, **kwargs: Any) -> Any:
            inside.append(None)
            try:
                return find()(*args, **kwargs)
            finally:
                inside.pop()

        return kernel

    def _implement_autocast(self, name: str, device: str) -> None:
        """Make the kernel for torch's autocast on a device type: the owner's policy, if it has one there."""
        import torch
        from torch.amp.autocast_mode import _cast

        key = f"Autocast{device.upper()}"
        if (name, key) in self._implemented:
            return
        core = torch._C
        keys = core.DispatchKeySet(core.DispatchKey.AutocastCPU)
        keys = keys | core.DispatchKeySet(core.DispatchKey.AutocastCUDA)

        def kernel(_keyset: Any, *args: Any, **kwargs: Any) -> Any:
            dtype = self._owner().autocast.get(device)
            if dtype is not None:
                args, kwargs = _cast(args, device, dtype), _cast(kwargs, device, dtype)
            with core._ExcludeDispatchKeyGuard(keys):
                return self._overloads[name](*args, **kwargs)

        self._kernels.impl(name, self._kernel(lambda: kernel), key, with_keyset=True)
        self._implemented.add((name, key))

    def _over_jagged(self, _cls: Any, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        functor = self._owner().operation.functor
        return over_jagged(functor.name, functor.signature.raws, func, args, kwargs or {})

    def _count(self, mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Let ``FlopCounterMode`` count: by the user's formula, else by the owner's number of an element's.

        The counter's own table is asked by identity: a packet's hash changes with each of its overloads.
        """
        table, packet = mode.counter.flop_registry, func._overloadpacket
        by_user = [formula for known, formula in table.items() if known is packet]
        table[packet] = by_user[0] if by_user else self._flops
        return type(mode).__torch_dispatch__(mode, func, types, args, kwargs or {})

    def _flops(self, *_: Any, out_val: Any, **__: Any) -> int:
        first = out_val[0] if isinstance(out_val, tuple | list) else out_val
        return int(first.numel()) * self._owner().flops
