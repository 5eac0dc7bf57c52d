"""An operation's calls that record nothing: what torch's graph runs in its nodes, through the launcher.

A node's tensors may say that they require grad, though what the node computes is not to be recorded again.
So these calls have entries and plans of the launcher of their own, which do not ask for gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numjit.call.planned import fast_calls
from numjit.call.warm import WarmPath
from numjit.launcher.attach import FastCallable, launchable

if TYPE_CHECKING:
    from numjit.elementwise import Elementwise

__all__ = ["Detached"]


class Detached(FastCallable):
    """An operation, called with one value a parameter by position; results are torch's, and not recorded.

    Whoever calls it knows that neither a mode nor a transform nor a batch nor a tensor class of its own is to
    see the call.

    Parameters
    ----------
    operation
        What it calls.
    refreshes
        Whether a call that the launcher does not answer, which looks at what the functor captures by itself,
        refreshes the operation; else whoever calls has.
    """

    def __init__(self, operation: Elementwise, *, refreshes: bool = False) -> None:
        self._operation = operation
        self._refreshes = refreshes
        self._fingerprint = operation.fingerprint
        self.warm = WarmPath()
        functor = operation.functor
        self.warm.fast = fast_calls(self, functor, [None] * len(functor.signature.parameters), detached=True)

    @launchable
    def __call__(self, *bound: Any) -> Any:
        """Compute; one array, or a tuple of several."""
        operation, warm = self._operation, self.warm
        if self._refreshes:
            operation.refresh()
            if self._fingerprint != operation.fingerprint:
                self._fingerprint = operation.fingerprint
                self.forget()
        key = warm.key(operation.meaning_of(bound), bound, detached=True)
        if key is not None:
            result = warm.run(key, bound)
            if result is not None:
                return result
        results = operation.compute_detached(bound, key, warm)
        return results[0] if len(results) == 1 else results

    def forget(self) -> None:
        """Forget the launcher's plans: what the functor captures has changed."""
        if self.warm.fast:
            self.warm.fast.forget()
