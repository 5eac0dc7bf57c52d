"""Put a functor in the place of one of torch's own operators, and take it away again."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import TYPE_CHECKING, Any

from numjit.errors import ArgumentError, DeviceError, NumjitError
from numjit.functor.signature import MISSING
from numjit.ground.apart import lock
from numjit.torch.dispatch import need_torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from numjit.functor.kinds import Functor

__all__ = ["Override", "OverrideError", "override"]

_lock = lock()
_installed: dict[tuple[str, str], Override] = {}


class OverrideError(NumjitError, ValueError):
    """An operator that cannot be overridden, or is already."""


class Override:
    """The replacement of one operator's kernel on one device type; made by `override`.

    Use it as a context manager, or `install` it for good and `remove` it later. Between threads it is
    one replacement for the whole process, as torch's dispatcher has it.
    """

    def __init__(self, op_name: str, functor: Callable[..., Any], device: str) -> None:
        import torch

        if not isinstance(op_name, str):
            raise OverrideError(
                f"the operator to override is a {type(op_name).__name__}; name it, as 'aten::gelu'"
            )
        self.op_name = op_name if "::" in op_name else f"aten::{op_name}"
        self._functor = functor
        if not callable(functor):
            raise OverrideError(
                f"the replacement of {self.op_name} is a {type(functor).__name__}; pass an operation made by "
                "numjit.elementwise, or a callable of tensors"
            )
        self._key = {"cuda": "CUDA", "cpu": "CPU"}.get(device, "") if isinstance(device, str) else ""
        if not self._key:
            raise OverrideError(f"{self.op_name} for device={device!r}; say 'cuda' or 'cpu'")
        namespace, name = self.op_name.split("::", 1)
        base, dot, overload = name.partition(".")
        if dot and not overload:
            raise OverrideError(
                f"{self.op_name!r} names no overload after the dot; say which, or {self.op_name[:-1]!r}"
            )
        try:
            packet = getattr(getattr(torch.ops, namespace), base)
            self._overload = getattr(packet, overload or "default")
        except (AttributeError, RuntimeError) as error:
            raise OverrideError(f"torch has no operator {self.op_name!r}: {error}; check its name") from None
        self._library: Any = None
        self._plan = self._match()

    def _match(self) -> list[tuple[str, bool, Any]]:
        """Pair the operator's arguments with the functor's parameters: (name, passed, default)."""
        schema = self._overload._schema
        operation = getattr(self._functor, "__numjit_functor__", None)
        known: set[str] | None = None
        if operation is not None:
            self._check_fits(operation)
            known = {p.name for p in operation.signature.scalars}
        plan = []
        for argument in schema.arguments:
            is_tensor = "Tensor" in str(argument.type)
            passed = is_tensor or known is None or argument.name in known
            plan.append((argument.name, passed, argument.default_value))
        return plan

    def _check_fits(self, functor: Functor) -> None:
        """See that a functor takes what the operator is called with, and gives what it gives."""
        schema, signature = self._overload._schema, functor.signature
        where = f"{self.op_name} cannot be overridden by {functor.name}()"
        kinds = {argument.name: str(argument.type) for argument in schema.arguments}
        lists = [name for name, kind in kinds.items() if "List[" in kind and "Tensor" in kind]
        if schema.is_mutable or lists:
            reason = f"takes a list of tensors, {lists[0]!r}" if lists else "writes to its arguments"
            raise OverrideError(
                f"{where}: it {reason}; override an operator of tensors that returns new ones"
            )
        tensors = [name for name, kind in kinds.items() if "Tensor" in kind]
        if len(tensors) != len(signature.operands):
            raise OverrideError(
                f"{where}: it takes {len(tensors)} tensors ({', '.join(tensors)}), but the functor has "
                f"{len(signature.operands)} operands; give it as many"
            )
        if len(schema.returns) != len(signature.outputs):
            raise OverrideError(
                f"{where}: it returns {len(schema.returns)} tensors, but the functor has "
                f"{len(signature.outputs)} results; give it as many"
            )
        for scalar in signature.scalars:
            if scalar.default is MISSING and scalar.name not in kinds:
                raise OverrideError(
                    f"{where}: it has no argument {scalar.name!r}, and the functor's scalar of that name has "
                    f"no default; give it one, or name it as one of {', '.join(kinds)}"
                )

    def _kernel(self, *args: Any, **kwargs: Any) -> Any:
        """Run the functor for the dispatcher: tensors by position, scalars by the schema's names."""
        tensors, scalars = [], {}
        schema = self._overload._schema.arguments
        given = {argument.name: value for argument, value in zip(schema, args, strict=False)} | kwargs
        for argument, (name, passed, default) in zip(schema, self._plan, strict=True):
            value = given.get(name, default)
            if not passed:
                if name in given and value != default:
                    functor = getattr(self._functor, "__name__", self._functor)
                    raise ArgumentError(
                        f"{self.op_name} was called with {name}={value!r}, which {functor} in its place has "
                        f"no scalar for; give it a scalar {name!r}, or call with {name}={default!r}"
                    )
            elif "Tensor" in str(argument.type):
                tensors.append(value)
            else:
                scalars[name] = value
        import torch

        with torch.no_grad():
            try:
                return self._functor(*tensors, **scalars)
            except DeviceError as error:
                raise DeviceError(f"{self.op_name}, overridden on {self._key}: {error}") from None

    def install(self) -> Override:
        """Replace the kernel until `remove`.

        Raises
        ------
        OverrideError
            Another override of the operator is installed.
        """
        import torch

        with _lock:
            key = (self._overload.name(), self._key)
            if key in _installed:
                raise OverrideError(
                    f"{self.op_name} is overridden on {self._key} already; remove() that override first"
                )
            namespace = self.op_name.split("::", 1)[0]
            self._library = torch.library.Library(namespace, "IMPL")
            name = self._overload.name()
            with warnings.catch_warnings():  # torch warns that a kernel is overridden, which is the point
                warnings.simplefilter("ignore", UserWarning)
                self._library.impl(
                    name.removesuffix(".default"), self._kernel, self._key, allow_override=True
                )
            _installed[key] = self
        return self

    def remove(self) -> None:
        """Give the operator its own kernel back; nothing where it is not installed."""
        with _lock:
            library, self._library = self._library, None
            if library is not None:
                del _installed[self._overload.name(), self._key]
                library._destroy()

    def __enter__(self) -> Override:
        return self.install()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()


def override(op_name: str, functor: Callable[..., Any], *, device: str = "cuda") -> Override:
    """Make the replacement of a torch operator's kernel by a functor.

    Tensors of the operator's schema are the functor's operands, in order; its other arguments are
    passed by name to the functor's scalars. An argument that the functor has no scalar for must have
    its default in every call. Gradients stay those of the operator: its own backward formula.

    Parameters
    ----------
    op_name
        As torch writes it: ``"aten::gelu"``, ``"aten::add.Tensor"``.
    functor
        Made by `numjit.elementwise` or `numjit.jiterator` (or any callable of tensors).
    device
        Whose kernel to replace: ``"cuda"`` or ``"cpu"``.

    Returns
    -------
    Override
        A context manager; or call ``.install()`` and ``.remove()``.

    Raises
    ------
    OverrideError
        torch has no such operator, `functor` is not callable, or is a functor of another number of operands
        or results than the operator has.
    ToolchainError
        torch is not installed.

    Examples
    --------
    >>> import torch, numjit
    >>> relu = numjit.elementwise("template <typename T> T relu(T x) { return x > 0 ? x : T(0); }")
    >>> x = torch.tensor([-1.0, 2.0])
    >>> with numjit.override("aten::gelu", relu, device="cpu"):
    ...     torch.nn.functional.gelu(x)
    tensor([0., 2.])
    """
    need_torch("numjit.override")
    return Override(op_name, functor, device)
