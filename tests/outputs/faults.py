"""Calls of the operating system, and allocations, that fail at the n-th of their kind."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
# What makes room for arrays, wherever it is called: here, in NumPy itself and in Matplotlib.
ALLOCATING = (
    *((np, name) for name in ("empty", "zeros", "ones", "full", "arange", "array", "concatenate")),
    *((np, name) for name in ("empty_like", "zeros_like", "full_like", "frombuffer")),
    (pa, "array"),
    (pa, "table"),
)
CALLS = {
    **{
        name: ((os, name),)
        for name in ("open", "write", "fsync", "link", "rename", "mkdir", "ftruncate", "fchmod")
    },
    "allocation": ALLOCATING,
}


class Fault:
    """Fails at the call number ``turn`` of a kind; ``calls`` were made in all."""

    def __init__(self, kind: str, turn: int, error: BaseException) -> None:
        self.kind = kind
        self.turn = turn
        self.error = error
        self.calls = 0

    def __str__(self) -> str:
        return f"{self.kind} number {self.turn} fails with {self.error!r}"

    @contextlib.contextmanager
    def injected(self) -> Iterator[None]:
        """Have it happen within the block."""
        before = [(where, name, getattr(where, name)) for where, name in CALLS[self.kind]]
        try:
            for where, name, real in before:
                setattr(where, name, self._counted(real))
            yield
        finally:
            for where, name, real in before:
                setattr(where, name, real)

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            if self.kind != "open" or arguments[1] & WRITING:
                self.calls += 1
                if self.calls == self.turn:
                    raise self.error
            return real(*arguments, **keywords)

        return call
