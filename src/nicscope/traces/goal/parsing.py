"""A streaming parser of GOAL's text: operations and dependencies, rank by rank.

The grammar is that of LogGOPSim's ``txt2bin``: Hoefler, Siebert and Lumsdaine, "Group Operation
Assembly Language", ICPP 2009.
"""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.errors import TraceError, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nicscope.traces.files import ByteSource

CALC, SEND, RECV = 0, 1, 2
ANY = -1  # source or tag
MOST_RANKS = 1 << 20
LARGEST_TAG = (1 << 32) - 1
LONGEST = (1 << 32) - 1  # bytes of a message
LONGEST_CALC = (1 << 53) - 1  # ns
_SHOWN = 60  # characters of a line in a message

_OPERATION = re.compile(
    r"(?:([A-Za-z][A-Za-z0-9_]*)\s*:\s*)?"
    r"(?:calc\s*(\d{1,19})|send\s*(\d{1,19})\s*b\s*to\s*(\d{1,9})"
    r"|recv\s*(\d{1,19})\s*b\s*from\s*(\d{1,9}|-1))"
    r"(?:\s*tag\s*(\d{1,10}|-1))?(?:\s*cpu\s*(\d{1,9}))?(?:\s*nic\s*(\d{1,9}))?",
    re.ASCII,
)
_REQUIREMENT = re.compile(r"([A-Za-z][A-Za-z0-9_]*)\s+(i?)requires\s+([A-Za-z][A-Za-z0-9_]*)")
_RANKS = re.compile(r"num_ranks\s*(\d{1,9})", re.ASCII)
_RANK = re.compile(r"rank\s*(\d{1,9})\s*\{", re.ASCII)


class Rank(NamedTuple):
    """One rank: columns of its operations, and pairs of dependent and dependency."""

    number: int
    ranks: int  # of the schedule
    kind: NDArray[np.uint8]
    size: NDArray[np.uint64]  # bytes; of a CALC nanoseconds
    peer: NDArray[np.int32]
    tag: NDArray[np.int64]
    line: NDArray[np.int64]  # where each stands
    requires: NDArray[np.uint32]  # pairs: an operation, and one that has to have ended
    irequires: NDArray[np.uint32]  # pairs: an operation, and one that has to have begun
    are_placed: bool  # on several CPUs or NICs


def ranks_of(source: ByteSource) -> Iterator[Rank]:
    """Yield each rank once its closing bracket is read.

    Errors: ``TraceError`` naming the first line that is no GOAL.
    """
    parser = _Parser(source.name)
    for number, line in _without_comments(source):
        found = parser.take(number, line)
        if found is not None:
            yield found
    parser.finish()


def _without_comments(source: ByteSource) -> Iterator[tuple[int, str]]:
    """Lines with comments and surrounding blanks removed, empty ones skipped."""
    is_within = False
    for number, line in source.lines():
        if "/" in line or is_within:
            line, is_within = _cut(line, is_within)
        line = line.strip()
        if line:
            yield number, line
    if is_within:
        raise TraceError(f"{source.name}: ends within a comment; close it with */")


def _cut(line: str, is_within: bool) -> tuple[str, bool]:
    """A line without comments, and whether a comment continues after it."""
    kept = ""
    while line:
        if is_within:
            _, end, line = line.partition("*/")
            is_within = not end
        else:
            at = min((p for p in (line.find("//"), line.find("/*")) if p >= 0), default=len(line))
            kept += line[:at] + " "
            is_within = line.startswith("/*", at)
            line = line[at + 2 :] if is_within else ""
    return kept, is_within


class _Parser:
    """Parses lines; returns a rank when it is complete."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._ranks: int | None = None
        self._seen: set[int] = set()
        self._rank: int | None = None
        self._begin(0)

    def _begin(self, line: int) -> None:
        self._opened = line
        self._labels: dict[str, int] = {}
        self._kind, self._size, self._peer = array("B"), array("Q"), array("i")
        self._tag, self._line = array("q"), array("q")
        self._requires, self._irequires = array("I"), array("I")
        self._later: list[tuple[str, str, str, int]] = []  # with labels that may come yet
        self._are_placed = False

    def _error(self, line: int, what: str) -> TraceError:
        return TraceError(f"{self._name}: line {line}: {what}")

    def take(self, number: int, line: str) -> Rank | None:
        """Parse a line; returns the rank that it closes, if any."""
        if self._rank is None:
            self._outside(number, line)
            return None
        found = _OPERATION.fullmatch(line)
        if found is not None:
            self._operation(number, found)
            return None
        wanted = _REQUIREMENT.fullmatch(line)
        if wanted is not None:
            self._requirement(number, *wanted.groups())
            return None
        if line == "}":
            return self._close()
        raise self._error(
            number,
            f"{printable(line[:_SHOWN])!r} is no operation; there are 'calc 100', "
            "'send 8b to 1 tag 0', 'recv 8b from 1 tag 0', 'l2 requires l1' and 'l2 irequires l1'",
        )

    def _outside(self, number: int, line: str) -> None:
        ranks, rank = _RANKS.fullmatch(line), _RANK.fullmatch(line)
        if ranks is not None and self._ranks is None:
            self._ranks = int(ranks[1])
            if not 1 <= self._ranks <= MOST_RANKS:
                raise self._error(number, f"num_ranks must be from 1 to {MOST_RANKS:,}")
        elif rank is not None and self._ranks is not None:
            self._rank = int(rank[1])
            if self._rank >= self._ranks:
                raise self._error(number, f"rank {self._rank} is none of num_ranks {self._ranks}")
            if self._rank in self._seen:
                raise self._error(number, f"rank {self._rank} is there a second time")
            self._seen.add(self._rank)
            self._begin(number)
        else:
            wanted = "num_ranks N" if self._ranks is None else "rank N {"
            raise self._error(number, f"{printable(line[:_SHOWN])!r} is not {wanted!r}")

    def _operation(self, number: int, found: re.Match[str]) -> None:
        label, calc, sent, to, received, source, tag, cpu, nic = found.groups()
        kind, size, peer = CALC, calc, str(ANY)
        if sent is not None:
            kind, size, peer = SEND, sent, to
        elif received is not None:
            kind, size, peer = RECV, received, source
        self._check(number, kind, int(size), int(peer), int(tag or 0))
        if label is not None:
            if label in self._labels:
                raise self._error(number, f"label {label!r} is there a second time in its rank")
            self._labels[label] = len(self._kind)
        self._kind.append(kind)
        self._size.append(int(size))
        self._peer.append(int(peer))
        self._tag.append(int(tag or 0))
        self._line.append(number)
        if (cpu or "0") != "0" or (nic or "0") != "0":
            self._are_placed = True

    def _check(self, number: int, kind: int, size: int, peer: int, tag: int) -> None:
        if kind == CALC:
            if size > LONGEST_CALC:
                raise self._error(number, f"calc {size} is longer than 2^53 ns")
            return
        assert self._ranks is not None
        if size > LONGEST:
            raise self._error(number, f"a message of {size} bytes is longer than 2^32 - 1")
        if peer >= self._ranks:
            raise self._error(number, f"rank {peer} is none of num_ranks {self._ranks}")
        if tag > LARGEST_TAG or (tag == ANY and kind == SEND):
            raise self._error(number, f"tag {tag} must be from 0 to 2^32 - 1")

    def _requirement(self, number: int, who: str, begun: str, whom: str) -> None:
        one, other = self._labels.get(who), self._labels.get(whom)
        if one is None or other is None:
            self._later.append((who, begun, whom, number))
        else:
            (self._irequires if begun else self._requires).extend((one, other))

    def _close(self) -> Rank:
        for who, begun, whom, number in self._later:
            for label in (who, whom):
                if label not in self._labels:
                    raise self._error(number, f"no operation of its rank has the label {label!r}")
            pair = self._labels[who], self._labels[whom]
            (self._irequires if begun else self._requires).extend(pair)
        assert self._rank is not None
        assert self._ranks is not None
        number, self._rank = self._rank, None
        return Rank(
            number,
            self._ranks,
            np.array(self._kind, np.uint8),
            np.array(self._size, np.uint64),
            np.array(self._peer, np.int32),
            np.array(self._tag, np.int64),
            np.array(self._line, np.int64),
            np.array(self._requires, np.uint32).reshape(-1, 2),
            np.array(self._irequires, np.uint32).reshape(-1, 2),
            self._are_placed,
        )

    def finish(self) -> None:
        """Errors: ``TraceError`` if a rank is open, or missing."""
        if self._rank is not None:
            raise TraceError(
                f"{self._name}: ends within rank {self._rank}, which line {self._opened} opens"
            )
        if self._ranks is None:
            raise TraceError(f"{self._name}: no 'num_ranks N'; is it GOAL's text?")
