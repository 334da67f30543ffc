"""Ping-pong between two nodes, with warm or missing translations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.config.design import MESSAGE_STORE_AND_FORWARD, Way
from nicscope.config.platform import OF_DESIGN, OF_SCHEME, load_platform
from nicscope.drivers.simulate.ports.build import HostSize, PortSize
from nicscope.interfaces.via import Cluster, Reliability
from nicscope.interfaces.via.cluster import settings_of
from nicscope.interfaces.via.descriptor import ALIGNMENT
from nicscope.interfaces.ways import Combination, check_runs
from nicscope.studies.latency.parts import Part, Sent, parts_of, prices_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from numpy.typing import NDArray

    from nicscope.config.design import Design
    from nicscope.config.platform import Platform
    from nicscope.interfaces.via import Host, Nic
    from nicscope.interfaces.via.vi import CompletionQueue, Vi


PAGE = 4096
DESIGN = "via-static"
# Messages each way before the first that counts, and that count, at least.  From the fourth on each
# takes as long as the one before, but where messages go around a cacheable queue: more that count
# would say the same.
WARM_UP = 4
MEASURED = 2
QUEUED = 8  # at least where they do not fit a cacheable queue evenly
ROUND_THE_CYCLE = 8  # messages in which each engine meets a background master's cycle everywhere
QUEUE_BLOCKS = 64  # of a cacheable queue, unless a setting says otherwise
ENTRY = 124  # bytes of a message in a block of a cacheable queue
RECORDS = 1 << 15  # of the log, at first
BESIDES = 8  # pages, regions, connections and entries that are no buffer's
LOOKED_UP = ("lookups", "ni_misses")


class Measured(NamedTuple):
    """Sums over all measured messages, picoseconds."""

    messages: int
    total: int
    parts: list[int]  # by ``Part``; they add up to ``total``
    lookups: int = 0  # of pages in a translation cache, on both NICs, for messages both ways
    misses: int = 0

    @property
    def until_seen(self) -> int:
        """Without the receiver's loads: until the receiver detects the message."""
        return self.total - self.parts[Part.USER_READ]


class Setting(NamedTuple):
    """Mechanism, platform and options of a ping-pong."""

    platform: str | Path | Platform
    way: str
    settings: Mapping[str, int] = {}
    design: str | Design = DESIGN
    pages: int = 1  # buffers on either side, used in turn
    delivery: str = MESSAGE_STORE_AND_FORWARD
    reliability: Reliability = Reliability.VIP_SERVICE_UNRELIABLE


def rounds_of(setting: Setting, byte_count: int) -> tuple[int, int]:
    """Warm-up rounds, and measured rounds.

    They use all buffers equally, and go around a cacheable queue: its entries differ in what the
    caches have of them.  A descriptor takes an entry too.  Where another master has bursts, what
    counts is the mean of those that wait and those that do not.
    """
    warm_up, least, around = WARM_UP, MEASURED, 1
    if _has_bursts(setting):
        warm_up, least = ROUND_THE_CYCLE, 2 * ROUND_THE_CYCLE
    if setting.way == Way.CNI:
        around = -(-QUEUE_BLOCKS // (1 + -(-byte_count // ENTRY)))
        least = max(least, QUEUED)
    measured = max(least, around)
    return max(warm_up, around + 2, setting.pages), -(-measured // setting.pages) * setting.pages


def _has_bursts(setting: Setting) -> bool:
    """Whether another bus master interferes."""
    name = "background_percent"
    if name in setting.settings:
        return setting.settings[name] > 0
    stated = _platform_of(setting).machine.get(name)
    return stated is not None and stated.value > 0


def _platform_of(setting: Setting) -> Platform:
    platform = setting.platform
    return load_platform(platform) if isinstance(platform, str | Path) else platform


def ping_pong(setting: Setting, byte_count: int, measured: int | None = None) -> Measured:
    """Time ``measured`` messages of ``byte_count`` bytes one way, once caches are warm.

    ``measured`` is by default as ``rounds_of`` says.
    Errors: ``DesignError``, ``PlatformError``, ``SimulationError``.
    """
    warm_up, usual = rounds_of(setting, byte_count)
    rounds = warm_up, usual if measured is None else measured
    game, cluster, log = _finished_game(setting, byte_count, rounds)
    costs = {name: cost.high_ps for name, cost in cluster.platform.costs.items()}
    own_table = cluster.design.name == DESIGN
    prices = prices_of(Way(setting.way), costs, cluster.settings.nic, own_table=own_table)
    counted = game.found[warm_up:]
    parts = [parts_of(log, sent, prices) for sent in counted]
    lookups, misses = (end - start for end, start in zip(game.looked(), game.warm, strict=True))
    return Measured(
        rounds[1],
        sum(sent.read - sent.begun for sent in counted),
        [sum(one[part] for one in parts) for part in Part],
        lookups,
        misses,
    )


def _finished_game(
    setting: Setting, byte_count: int, rounds: tuple[int, int]
) -> tuple[_Game, Cluster, NDArray[Any]]:
    """The finished game and its log, complete at the second try if need be."""
    records = RECORDS
    while True:
        cluster = _cluster(setting, byte_count, sum(rounds), records)
        game = _Game(byte_count, rounds, setting, cluster)
        cluster.start(0, game.player(first=True))
        cluster.start(1, game.player(first=False))
        cluster.run()
        assert cluster.simulation is not None
        machine = cluster.simulation.machine
        total = int(machine.tally[0]["log"])
        if total <= records:
            return game, cluster, machine.log[:total]
        records = total


def _cluster(setting: Setting, byte_count: int, rounds: int, records: int) -> Cluster:
    """Two nodes with memory for the game's buffers and descriptors."""
    buffer, ring = -(-byte_count // PAGE), 1 << (rounds - 1).bit_length()
    pages = 2 * setting.pages * buffer + 2 * -(-rounds * ALIGNMENT // PAGE) + BESIDES
    changes = dict(setting.settings)
    if setting.pages > 1:
        changes.setdefault("memory_bytes", PAGE << max(9, pages.bit_length()))
    platform = _platform_of(setting)
    check_runs(Combination("VIA", platform, setting.way))
    frames = settings_of(platform, changes).host["memory_bytes"] // PAGE
    return Cluster(
        platform,
        setting.way,
        design=setting.design,
        settings=changes,
        delivery=setting.delivery,
        vis=1,
        queues=2,
        host=HostSize(frames=frames, pages_per_space=max(pages, frames)),
        size=PortSize(
            segments=1,
            ring=ring,
            receives=rounds,
            regions=2 * setting.pages + BESIDES,
            longest=pages,
            connections=BESIDES,
            entries=BESIDES,
        ),
        keep_log=records,
    )


class _Game:
    def __init__(
        self, byte_count: int, rounds: tuple[int, int], setting: Setting, cluster: Cluster
    ) -> None:
        self._size = byte_count
        self._warm_up, measured = rounds
        self._rounds = self._warm_up + measured
        self._pages = setting.pages
        self._reliability = setting.reliability
        self._cluster = cluster
        self._started = 0  # when the first player began to write the message under way
        self.found: list[Sent] = []
        self.warm = (0, 0)  # what ``looked`` said before the first message that counts

    def looked(self) -> tuple[int, int]:
        """Lookups and misses so far, of both NICs."""
        counts = [self._cluster.counts(node) for node in range(2)]
        lookups, misses = (sum(one.get(name) or 0 for one in counts) for name in LOOKED_UP)
        return lookups, misses

    def player(self, *, first: bool) -> Callable[[Host], Coroutine[None, None, None]]:
        async def play(host: Host) -> None:
            nic = await host.open_nic()
            tag = await nic.create_ptag()
            sent, come = [await nic.create_cq(tag, BESIDES) for _ in range(2)]
            vi = await nic.create_vi(tag, self._reliability, send_cq=sent, recv_cq=come)
            places = await nic.descriptors(tag, self._rounds, segments=1)
            ours = await nic.descriptors(tag, 1, segments=1)
            room = -(-self._size // PAGE) * PAGE  # a buffer shares no block with another
            outs, intos = [
                [await nic.register_mem(nic.allocate(room), tag) for _ in range(self._pages)]
                for _ in range(2)
            ]
            for number in range(self._rounds):
                await nic.post_recv(vi, places.request(intos[number % self._pages].segment()))
            if first:
                await nic.connect_request(vi, 1, "ping-pong")
            else:
                await nic.connect_accept(await nic.connect_wait("ping-pong"), vi)
            for number in range(self._rounds):
                raw = bytes((number + i) % 251 for i in range(self._size))
                out, into = outs[number % self._pages], intos[number % self._pages]
                if first:
                    if number == self._warm_up:
                        self.warm = self.looked()
                    self._started = nic.now_ps
                else:
                    seen = await self._receive(nic, come, vi, into.address, raw)
                    self.found.append(Sent(0, 1, self._size, self._started, seen, nic.now_ps))
                await nic.write(out.address, raw)
                await nic.post_send(vi, ours.request(out.segment(0, self._size)))
                await nic.cq_wait(sent)
                await nic.send_done(vi)
                if first:
                    await self._receive(nic, come, vi, into.address, raw)

        return play

    async def _receive(
        self, nic: Nic, come: CompletionQueue, vi: Vi, address: int, expected: bytes
    ) -> int:
        """Poll for the receive and load the message; when it was detected (ps)."""
        await nic.cq_wait(come)
        await nic.recv_done(vi)
        seen = nic.now_ps
        received = await nic.read(address, self._size)
        if received != expected:
            raise RuntimeError("a message did not arrive as it was sent")
        return seen


# A scheme by its name: the design of the catalog that its paper measured.
DESIGNS = {
    "static": "vmmc-static",
    "utlb": "utlb",
    "unet-mm": "unet-mm-pca200",
    "handle": "mini",
    "interrupt": "vmmc-interrupt",
}


class Translating(msgspec.Struct, frozen=True):
    """The question's translation options."""

    design: str
    scheme: str
    platform: str  # of what it takes, as far as that of the messages does not state it
    entries: int | None
    pages: int  # that messages use in turn


def costs_needed_by(design: Design) -> Sequence[str]:
    """The translation costs that ``design`` needs."""
    return *OF_SCHEME[design.scheme], *OF_DESIGN
