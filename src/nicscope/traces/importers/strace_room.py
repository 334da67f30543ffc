"""What a strace log has its reader remember is bounded, whatever the log says.

Remembered are tasks that have not ended, their descriptors, and calls that have not: those that
were interrupted, and those of tasks whose maker has not returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

MOST_TASKS = 1 << 16  # some 700 bytes each
MOST_DESCRIPTORS = 1 << 19  # some 250 bytes each
MOST_CHARACTERS = 1 << 26  # of calls
A_CALL = 512  # takes as much memory as that many characters, besides its own
# A path, which strace prints with up to four characters a byte, leaves room before and after it.
_AT_EITHER_END = 1 << 14


def shortened(text: str) -> str:
    """What is kept of a call: of text that it moves, as in ``sendto(3, "...``, nothing is used."""
    if len(text) <= 2 * _AT_EITHER_END:
        return text
    return f"{text[:_AT_EITHER_END]}...{text[-_AT_EITHER_END:]}"


class Room:
    """Counts what the reader of the log ``name`` remembers; errors: ``TraceError`` if too much."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._characters = 0
        self._added = 0  # descriptors, since those that are there were counted

    def keep(self, line: int, characters: int) -> None:
        """Count the call of ``line``, of which that much text is kept."""
        self._characters += A_CALL + characters
        if self._characters > MOST_CHARACTERS:
            self._refuse(line, f"calls that have not ended take over {MOST_CHARACTERS:,} bytes")

    def let_go(self, characters: int) -> None:
        """Count a call no more."""
        self._characters -= A_CALL + characters

    def tasks(self, line: int, count: int) -> None:
        """Return if there may be ``count`` tasks at once."""
        if count > MOST_TASKS:
            self._refuse(line, f"over {MOST_TASKS:,} tasks that have not ended")

    def descriptors(self, line: int, more: int, tables: Iterable[Collection[int]]) -> None:
        """Return if ``more`` descriptors may be added to those in ``tables``.

        Counting takes long, so it is done each time that many were added: twice as many may be
        there before it is noticed.
        """
        self._added += more
        if self._added <= MOST_DESCRIPTORS:
            return
        apart = {id(table): table for table in tables}.values()
        if more + sum(map(len, apart)) > MOST_DESCRIPTORS:
            self._refuse(line, f"over {MOST_DESCRIPTORS:,} descriptors that are not closed")
        self._added = more

    def _refuse(self, line: int, what: str) -> None:
        raise TraceError(
            f"{self._name}: line {line}: {what}; if this is a log of strace, record a "
            "shorter time or fewer processes"
        )
