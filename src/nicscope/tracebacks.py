"""Tracebacks of calls from user code: frames of nicscope are left out.

All that a script calls outside programs wears it: constructors, set-up, runs, reports.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import TYPE_CHECKING

from nicscope.errors import NicscopeError
from nicscope.frames import entries, keep_own, own_entry

if TYPE_CHECKING:
    from types import TracebackType


class TrimmedTraceback(ContextDecorator):
    """Removes frames of nicscope from the traceback of what is raised within its block.

    ``@TrimmedTraceback()``: the block is all that a function does, and how it is called.
    """

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
    """Keeps the user's frames; for an error without any, notes where else it was raised."""
    if isinstance(error, NicscopeError):
        keep_own(error)
        if own_entry(error) is None:
            error.__traceback__ = None
        error.__suppress_context__ = True
        if error.__cause__ is not None:
            keep_own(error.__cause__)
            if own_entry(error.__cause__) is None:  # what it says, the error says
                error.__cause__ = None
        return
    entry = own_entry(error)
    if entry is None:
        # Nothing of ours has begun where the call itself was wrong, as with an argument too many.
        is_call = isinstance(error, TypeError) and len([*entries(error)]) == 1
        if is_call or isinstance(error, KeyboardInterrupt):
            error.__traceback__ = None
        return
    last = entry
    while last.tb_next is not None:
        last = last.tb_next
    if last is not entry and not isinstance(error, KeyboardInterrupt):
        code = last.tb_frame.f_code
        error.add_note(f"raised in {code.co_name}, {code.co_filename}:{last.tb_lineno}")
    keep_own(error)
