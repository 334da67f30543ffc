"""The least that a collective can take: by latency and bandwidth of a message between two nodes.

The model is the usual one: a message of m bytes takes alpha + m beta.  Both are measured on the
same machine between two nodes that do nothing else.  What comes of them is arithmetic (evidence:
identity): what an algorithm takes if each message of its longest chain takes no more than that, and
what processors load, add and store takes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nicscope.apps.collectives.arrays import HostArray
from nicscope.apps.collectives.barrier import ARRIVED
from nicscope.apps.collectives.running import run_parties
from nicscope.studies.collectives.measuring import quietly

if TYPE_CHECKING:
    from nicscope.apps.collectives.running import Machine, Party

SIZES = (1 << 15, 1 << 17)  # bytes, between which a message's time is taken as a straight line
TRIPS = 8  # there and back
PING = ARRIVED + 1  # kind of note


class AlphaBeta(msgspec.Struct, frozen=True):
    """Of a machine."""

    alpha_us: float  # of a note, one way
    beta_us: float  # of each byte that is in none
    note_bytes: int  # that a note carries at no more cost

    def message_us(self, size: int) -> float:
        """What a message of so many bytes takes at least."""
        return self.alpha_us + (size * self.beta_us if size > self.note_bytes else 0.0)


def alpha_beta(machine: Machine) -> AlphaBeta:
    """Measured between two nodes: half of the shortest time there and back."""
    notes: list[float] = []
    found: dict[int, float] = {}
    short: list[int] = []

    async def body(party: Party) -> None:
        heard = 0

        async def hear(_rank: int, _content: bytes) -> None:
            nonlocal heard
            heard += 1

        messages, other = party.messages, 1 - party.rank
        messages.on(PING, hear)
        await party.barrier.meet()
        for trip in range(TRIPS):
            began = party.wire.now_us
            if not party.rank:
                await messages.say(other, PING)
            await messages.wait_until(lambda: heard > trip)  # noqa: B023 - awaited
            if party.rank:
                await messages.say(other, PING)
            else:
                notes.append((party.wire.now_us - began) / 2)
        short.append(party.wire.short)
        for size in SIZES:
            array = HostArray(party.wire, size, "u1")
            for _ in range(TRIPS):
                began = party.wire.now_us
                if not party.rank:
                    await messages.send(other, array.all)
                await messages.came(await messages.receive(other, array.all))
                if party.rank:
                    await messages.send(other, array.all)
                took = (party.wire.now_us - began) / 2
                if not party.rank:
                    found[size] = min(took, found.get(size, took))
            await messages.settle()

    quietly(lambda: run_parties(machine._replace(faults=None), 2, 2 * SIZES[-1], body))
    low, high = SIZES
    return AlphaBeta(min(notes), (found[high] - found[low]) / (high - low), short[0])


def bound_us(
    collective: str, algorithm: str, ranks: int, count: int, size: int, machine: AlphaBeta
) -> float:
    """What an algorithm's longest chain of messages takes, each of which waits for the one before.

    ``count`` numbers of ``size`` bytes each are in an array; 0 where there is none.
    """
    alpha = machine.alpha_us
    rounds = (ranks - 1).bit_length()
    if ranks == 1:
        return 0.0
    if collective == "barrier":
        return rounds * alpha
    if collective == "lock":
        return 2 * alpha  # the asking, and the answer
    if not count:
        return 0.0
    message, part = machine.message_us(count * size), machine.message_us(count // ranks * size)
    if algorithm == "pairwise":
        return (ranks - 1) * part if count >= ranks else alpha
    if collective == "allreduce" and algorithm == "ring":
        return 2 * (ranks - 1) * part if count >= ranks else alpha
    if collective == "allreduce":
        within = ranks.bit_length() - 1
        return (within + (2 if ranks > 1 << within else 0)) * message
    if algorithm == "ring":  # segments overlap
        return (ranks - 2) * alpha + message
    return max(rank.bit_count() for rank in range(ranks)) * message  # hops from the root


def share_moved(collective: str, ranks: int) -> float:
    """Bytes that each node has to send or to receive, per byte of the array (as nccl-tests).

    Bus bandwidth is algorithm bandwidth times this.
    """
    if ranks == 1:
        return 0.0
    return {
        "broadcast": 1.0,
        "allreduce": 2 * (ranks - 1) / ranks,
        "alltoall": (ranks - 1) / ranks,
    }.get(collective, 0.0)
