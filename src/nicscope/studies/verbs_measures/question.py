"""What is to be measured: operations, sizes, queue pairs and what is outstanding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.errors import StudyError
from nicscope.studies.number_lists import numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

OPERATIONS = ("send", "write", "read", "atomic")
WITHOUT_INLINE = ("read", "atomic")
WORD = 8  # bytes of an atomic operation
MOST_BYTES = 1 << 20
MOST_PAIRS = 128
MOST_DEPTH = 1 << 12
MOST_COUNT = 10**6
MOST_INLINE = 512


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement on each design for each size."""

    operation: str
    sizes: list[int]
    iterations: int  # by each queue pair
    pairs: int = 1
    depth: int = 1  # requests of a queue pair that may be outstanding
    inline: int = 0  # messages of up to so many bytes go with the request
    designs: Sequence[Any] = (None,)  # names, files or designs; None: the device's own
    platform: Any = None
    seed: int = 0

    def goes_inline(self, size: int) -> bool:
        """Whether a message of that size goes with its request."""
        return size <= self.inline


def ask(
    *,
    operation: str,
    sizes: str | None,
    iterations: int,
    pairs: int = 1,
    depth: int = 1,
    inline: int = 0,
    designs: Sequence[Any] = (None,),
    platform: Any = None,
    most_sizes: str = "64..65536",
) -> Question:
    """A question that can be answered.  Errors: ``StudyError`` naming the option."""
    if operation not in OPERATIONS:
        raise StudyError(f"--op is one of {', '.join(OPERATIONS)}, got {operation!r}")
    if operation == "atomic":
        chosen = [WORD] if sizes is None else numbers("--size", sizes, MOST_BYTES)
        if chosen != [WORD]:
            raise StudyError(f"--size: an atomic operation is of {WORD} bytes; leave it out")
    else:
        chosen = numbers("--size", most_sizes if sizes is None else sizes, MOST_BYTES)
    for option, value, least, most in (
        ("--iters", iterations, 2, MOST_COUNT),
        ("--qps", pairs, 1, MOST_PAIRS),
        ("--tx-depth", depth, 1, MOST_DEPTH),
        ("--inline", inline, 0, MOST_INLINE),
    ):
        if not least <= value <= most:
            raise StudyError(f"{option} must be from {least} to {most:,}, got {value:,}")
    if inline and operation in WITHOUT_INLINE:
        raise StudyError(f"--inline: nothing of an operation {operation!r} goes with its request")
    return Question(
        operation=operation,
        sizes=chosen,
        iterations=iterations,
        pairs=pairs,
        depth=depth,
        inline=inline,
        designs=designs,
        platform=platform,
    )
