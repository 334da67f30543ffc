"""Base of trace writers: a file appears complete or not at all.

Light, so that a recording into a name that no format has is refused early.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from nicscope.errors import TraceError
from nicscope.outputs.file import TABLES

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Any, Self

    from nicscope.traces.schema import Requests, TraceMetadata

WRITTEN = TABLES | {"oracle-general": (".oracleGeneral", ".oracleGeneral.bin", ".bin")}


class AtomicWriter(ABC):
    """Appends requests to a file that appears, complete, when the ``with`` block succeeds."""

    def __init__(self, path: Path, metadata: TraceMetadata) -> None:
        self.path = path
        self.metadata = metadata
        self.rows = 0  # appended so far
        self.lost: list[str] = []  # what was there and has no place here
        self._cleanup = contextlib.ExitStack()

    @abstractmethod
    def append(self, requests: Requests, batch: Any) -> None:
        """Append requests that are checked already, with the Arrow batch that they came from."""

    @abstractmethod
    def _open(self, opening: contextlib.ExitStack) -> None:
        """Open the output; ``opening`` closes it."""

    @abstractmethod
    def _finish(self) -> None:
        """Write the trailer, if the format has one."""

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as opening:
            self._open(opening)
            self._cleanup = opening.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        if error is not None:
            return self._cleanup.__exit__(kind, error, traceback)
        with self._cleanup:
            if not self.rows:
                raise TraceError(f"{self.path}: not written, as there is no request to write")
            self._finish()
        return None
