"""The micro-benchmark: a message there, the same back, both sides with receives posted ahead.

The clock of a message starts at the first user write and stops when the receiver's poll has seen
the completion.  The two ends of the paper's own definition do not fit: it starts at VipPostSend,
yet counts the user's writes, which come before.  Source: EDT, 7.1 and 7.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nicscope.interfaces.via import Cluster, Reliability
from nicscope.interfaces.via.journal import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from pathlib import Path

    from nicscope.interfaces.via import Host
    from nicscope.interfaces.via.journal import Journal
    from nicscope.nic.coherent.mechanism import Mechanism

# Messages each way before the first that counts, and that count.  A small one takes two entries of
# a cacheable queue of 64, so either is about a pass around it.
WARM_UP = 34
MEASURED = 32


class Measured(NamedTuple):
    """Of all measured messages together, picoseconds."""

    messages: int
    total: int
    parts: list[int]  # by ``Part``; they add up to ``total``


def ping_pong(
    platform: str | Path,
    mechanism: str | Mechanism,
    byte_count: int,
    settings: Mapping[str, int] | None = None,
    *,
    measured: int = MEASURED,
    reliability: Reliability = Reliability.VIP_SERVICE_UNRELIABLE,
) -> Measured:
    """Time ``measured`` messages of ``byte_count`` bytes one way, once caches are warm.

    Errors: ``PlatformError``, ``SimulationError``.
    """
    cluster = Cluster(platform, mechanism, settings=settings)
    game = _Game(byte_count, WARM_UP + measured, reliability)
    cluster.start(0, game.player(first=True))
    cluster.start(1, game.player(first=False))
    cluster.run()
    counted = game.found[WARM_UP:]
    parts = [sum(one.parts[part] for one in counted) for part in Part]
    return Measured(measured, sum(one.total for one in counted), parts)


class _Game:
    def __init__(self, byte_count: int, rounds: int, reliability: Reliability) -> None:
        self._size = byte_count
        self._rounds = rounds
        self._reliability = reliability
        self._started = 0  # when the first player began to write the message under way
        self.found: list[Measured] = []

    def player(self, *, first: bool) -> Callable[[Host], Coroutine[None, None, None]]:
        async def play(host: Host) -> None:
            nic = await host.open_nic()
            tag = await nic.create_ptag()
            vi = await nic.create_vi(tag, self._reliability)
            places = await nic.descriptors(tag, self._rounds, segments=1)
            ours = await nic.descriptors(tag, 1, segments=1)
            out, into = [await nic.register_mem(nic.allocate(self._size), tag) for _ in range(2)]
            for _ in range(self._rounds):
                await nic.post_recv(vi, places.request(into.segment()))
            if first:
                await nic.connect_request(vi, 1, "ping-pong")
            else:
                await nic.connect_accept(await nic.connect_wait("ping-pong"), vi)
            for number in range(self._rounds):
                raw = bytes((number + i) % 251 for i in range(self._size))
                if first:
                    self._started = nic.now_ps
                else:
                    self._note((await nic.recv_wait(vi)).journal, nic.now_ps)
                    self._compare(raw, await nic.read(into.address, self._size))
                await nic.write(out.address, raw)
                await nic.post_send(vi, ours.request(out.segment()))
                await nic.send_wait(vi)
                if first:
                    await nic.recv_wait(vi)
                    self._compare(raw, await nic.read(into.address, self._size))

        return play

    def _note(self, journal: Journal | None, now: int) -> None:
        """The message that was begun at ``_started`` has been seen ``now``."""
        if journal is None or journal.at != now:
            raise RuntimeError("a message's journal has a gap")
        parts = list(journal.parts)
        parts[Part.USER_DATA] += journal.begin - self._started
        self.found.append(Measured(1, now - self._started, parts))

    def _compare(self, sent: bytes, received: bytes) -> None:
        if sent != received:
            raise RuntimeError("a message did not arrive as it was sent")
