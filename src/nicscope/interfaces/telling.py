"""What leaves a run is told from a person's own lines: no frames of ours before or between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.drivers.simulate.frames import keep_own, own_entry
from nicscope.errors import NicscopeError

if TYPE_CHECKING:
    from types import TracebackType


class ToldPlainly:
    """Within its block, what is raised loses frames of ours, that of the block's own included."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if error is not None:
            _trim(error)


def _trim(error: BaseException) -> None:
    """Leave the person's frames; of an error that is no one's, say where else it was raised."""
    if isinstance(error, NicscopeError):
        keep_own(error)
        if own_entry(error) is None:
            error.__traceback__ = None
        error.__suppress_context__ = True
        return
    entry = own_entry(error)
    if entry is None:
        if isinstance(error, KeyboardInterrupt):
            error.__traceback__ = None
        return
    last = entry
    while last.tb_next is not None:
        last = last.tb_next
    if last is not entry and not isinstance(error, KeyboardInterrupt):
        code = last.tb_frame.f_code
        error.add_note(f"raised in {code.co_name}, {code.co_filename}:{last.tb_lineno}")
    keep_own(error)
