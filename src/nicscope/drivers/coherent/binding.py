"""Kernels bound to one machine, each when it is first asked for, so that none compiles in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.handover import bound

if TYPE_CHECKING:
    from collections.abc import Callable


class Binding:
    """Of ``state``, a NamedTuple of arrays; see ``nicscope.handover``."""

    def __init__(self, state: Any) -> None:
        self.state = state
        self._entries: dict[int, Callable[..., Any]] = {}  # by identity: hashing one is slow

    def of(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """``kernel`` without its first argument; all others are int64."""
        try:
            return self._entries[id(kernel)]
        except KeyError:
            entry = self._entries[id(kernel)] = bound(kernel, self.state)
            return entry
