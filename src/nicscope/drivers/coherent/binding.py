"""Kernels bound to one machine, each when it is first asked for, so that none compiles in vain."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from nicscope.kernel.entering import bound

if TYPE_CHECKING:
    from collections.abc import Callable


class Binding:
    """Of ``state``, a NamedTuple of arrays, and of the numbers ``first``."""

    def __init__(self, state: Any, *first: int) -> None:
        self.state = state
        self._first = first
        # By identity: a look at the kernel itself takes as long as a short one runs.
        self._entries: dict[int, Callable[..., Any]] = {}

    def of(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """``kernel`` without its first arguments; all others are int64."""
        try:
            return self._entries[id(kernel)]
        except KeyError:
            entry = functools.partial(bound(kernel, self.state), *self._first)
            self._entries[id(kernel)] = entry
            return entry
