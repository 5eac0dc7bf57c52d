"""A functor's operation as a ``torch.nn.Module``; made by `Elementwise.module`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from numjit.arrays.numbers import number_type
from numjit.call.operation import operation_of
from numjit.errors import ArgumentError

__all__ = ["as_module"]


def as_module(operation: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Return the module of an operation; what is given by name is part of it.

    Raises
    ------
    ArgumentError
        A name that the operation does not have or a module cannot have, or a value that is neither a number
        nor a tensor.
    """
    return _module_class()(operation, given)


def __getattr__(name: str) -> Any:
    if name == "ElementwiseModule":  # pickles name the class so
        return _module_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@functools.cache
def _module_class() -> Any:
    """Return the class of the modules, made when torch is first needed."""
    import torch

    class ElementwiseModule(torch.nn.Module):  # type: ignore[misc]
        """Calls an operation; what was given by name is part of the module.

        Attributes
        ----------
        operation
            What it calls.
        numbers
            The numbers that were given, by name; tensors are parameters and buffers.
        """

        __qualname__ = "ElementwiseModule"

        def __init__(self, operation: Callable[..., Any], given: Mapping[str, Any]) -> None:
            super().__init__()
            engine = operation_of(operation)
            assert engine is not None
            self.operation = operation
            self.numbers: dict[str, Any] = {}
            self._tensors: list[str] = []
            scalars = set(engine.names[engine.count :])
            known = engine.names
            for name, value in given.items():
                where = f"{engine.name}.module(): {name!r}"
                if name not in known:
                    raise ArgumentError(f"{where} is no parameter; they are {', '.join(known)}")
                if isinstance(value, torch.Tensor):
                    if name in scalars and value.dim():
                        raise ArgumentError(
                            f"{where} is a scalar and has shape {tuple(value.shape)}; pass a number or a "
                            "0-dim tensor"
                        )
                    self._keep(name, value, where)
                elif number_type(value) is not None:
                    self.numbers[name] = value
                else:
                    raise ArgumentError(f"{where} is a {type(value).__name__}; pass a number or a tensor")

        def _keep(self, name: str, value: Any, where: str) -> None:
            """Make a tensor a parameter if it is one, else a buffer."""
            is_parameter = isinstance(value, torch.nn.Parameter)
            try:
                (self.register_parameter if is_parameter else self.register_buffer)(name, value)
            except (KeyError, TypeError) as error:
                raise ArgumentError(
                    f"{where} cannot be a tensor of a module: {error}; rename the functor's parameter"
                ) from None
            self._tensors.append(name)

        def forward(self, *operands: Any) -> Any:
            """Call the operation on the operands that the module does not have."""
            tensors = {name: getattr(self, name) for name in self._tensors}
            return self.operation(*operands, **self.numbers, **tensors)

        def extra_repr(self) -> str:
            """Return the functor's name and what the module has."""
            numbers = [f"{name}={value!r}" for name, value in self.numbers.items()]
            tensors = [f"{name}={type(getattr(self, name)).__name__}" for name in self._tensors]
            return ", ".join([self.operation.__name__, *numbers, *tensors])

    return ElementwiseModule
