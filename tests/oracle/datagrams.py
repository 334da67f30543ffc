"""Datagrams, slowly: which of those that were sent a port may have had, and as what."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

HEADER = 40  # bytes that a message leaves alone at the beginning of its receive


class Datagram(NamedTuple):
    """One that was sent."""

    node: int
    port: int  # that sends it
    to: tuple[int, int]  # node and port
    qkey: int
    content: bytes


class Had(NamedTuple):
    """One that has come."""

    node: int  # whence
    port: int
    length: int
    content: bytes  # of all of the receive


def may_come(one: Datagram, qkeys: dict[tuple[int, int], int]) -> bool:
    """Whether there is such a port, which has that key."""
    return qkeys.get(one.to) == one.qkey


def as_found(one: Datagram, blank: bytes) -> Had:
    """What its receiver finds in a receive that held ``blank`` before."""
    end = HEADER + len(one.content)
    return Had(one.node, one.port, end, blank[:HEADER] + one.content + blank[end:])


def wished(
    sent: list[Datagram], qkeys: dict[tuple[int, int], int], to: tuple[int, int], blank: bytes
) -> list[Had]:
    """All that a port should have if nothing is lost, in the order in which they were sent."""
    return [as_found(one, blank) for one in sent if one.to == to and may_come(one, qkeys)]


def is_part(had: list[Had], all_of_them: list[Had]) -> bool:
    """Whether each came once at most, those of one sender in their order, and none else."""
    if Counter(had) - Counter(all_of_them):
        return False
    for sender in {(one.node, one.port) for one in had}:
        theirs = iter(one for one in all_of_them if (one.node, one.port) == sender)
        mine = [one for one in had if (one.node, one.port) == sender]
        if not all(one in theirs for one in mine):
            return False
    return True
