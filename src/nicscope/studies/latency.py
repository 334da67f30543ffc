"""Measures the user-to-user latency of a message by component, for every way into the NIC.

A ping-pong between two nodes is taken apart from the log, each instant counted once.  A message
goes on in three stretches: the sender's processor until its doorbell has rung, the two
NICs until the receiver's report is in its host's memory, the receiver's processor until its polls
have seen that and its program has loaded the message.  Several things may be under way at one
moment; it is counted for the first of these: the NICs' messaging (the sender's before the
receiver's), the engines between host and NIC, a host's processor, what the NICs do for other
messages, the network; and where nothing was, as waiting.  So parts add up.
"""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from nicscope.config.costs import COSTS
from nicscope.config.design import (
    MESSAGE_STORE_AND_FORWARD,
    POLICIES,
    Design,
    Policy,
    Way,
    load_design,
    with_settings,
)
from nicscope.config.platform import (
    MACHINE,
    MACHINE_TIMES,
    OF_DESIGN,
    OF_SCHEME,
    completed,
    load_platform,
    read_cost,
    read_number,
)
from nicscope.config.quantities import read_bytes
from nicscope.drivers.simulate.observe import Engine, Task
from nicscope.drivers.simulate.ports.build import HostSize, PortSize
from nicscope.drivers.simulate.records import ACCESSING, COPYING, INTERRUPTED, POLLING, POSTING
from nicscope.errors import DesignError, StudyError, did_you_mean
from nicscope.interfaces.via import Cluster, Host, Nic, Reliability
from nicscope.interfaces.via.cluster import DELIVERIES, settings_of
from nicscope.interfaces.via.descriptor import ALIGNMENT
from nicscope.interfaces.ways import HELPED_BY_HOST, Combination, check_runs, why_way_refused
from nicscope.studies.sources import repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from nicscope.config.platform import Platform
    from nicscope.interfaces.via.vi import CompletionQueue, Vi


class Part(IntEnum):
    """A component of a message's latency.  Source: EDT, 7.2 and Figures 8 and 9.

    LIBRARY, COPY, WAIT, NETWORK and USER_READ are ours: the paper's Transport is the time of VI-MSG
    alone, its User Data what the sender writes.
    """

    USER_DATA = 0  # the program writes the message
    DMA_INIT = 1
    DMA_EXEC = 2
    DMA_INTERRUPT = 3
    COHERENCE = 4  # the NIC writes back, or takes, blocks that it keeps
    BLOCK_WAIT = 5  # the NIC waits for blocks that it reads because the host wrote them
    COPY = 6  # the processor moves or flushes the message itself
    SEND = 7  # transport at the sender: the NIC's messaging
    RECEIVE = 8
    LIBRARY = 9  # the library posts and polls
    WAIT = 10  # for a NIC's processor that has something else to do, or for what nobody saw
    PIN = 11  # the library checks and pins
    TRANSLATION = 12  # the NIC looks pages up, if not the messaging does in a table of its own
    MISS = 13  # it has to wait for a translation
    NETWORK = 14  # links and switches
    USER_READ = 15  # the receiving program loads the message


DATA_TRANSFER = (
    Part.DMA_INIT,
    Part.DMA_EXEC,
    Part.DMA_INTERRUPT,
    Part.COHERENCE,
    Part.BLOCK_WAIT,
    Part.COPY,
)
TRANSPORT = (Part.SEND, Part.RECEIVE)
# Of overlapping spans the highest counts.
NETWORK, BESIDE, CPU, ENGINE, RECEIVING, SENDING = range(1, 7)
# What the NIC's processor does for messages before, or to come.
FOR_OTHERS = (Task.POST_CONTROL, Task.FINISH)
OF_CPU = (POSTING, ACCESSING, COPYING)
# What the engine does that fetches, or that delivers, if not by DMA.
FETCHES = {Way.EDT: Part.BLOCK_WAIT, Way.CNI: Part.BLOCK_WAIT}
DELIVERS = {Way.EDT: Part.COHERENCE, Way.CNI: Part.COHERENCE}
# Its move of a descriptor, where descriptors lie in the host's memory.
DESCRIPTOR = 9
# What the engine waits for is the processor: its transfer is told as the processor's.
UNCACHED = (Way.PIO, Way.PIO_COMBINED)


class Span(NamedTuple):
    """An activity from ``start`` to ``end`` (ps)."""

    rank: int
    part: Part
    start: int
    end: int


class Sent(NamedTuple):
    """A message: its nodes, and when (ps) it was begun, detected and read."""

    sender: int
    receiver: int
    byte_count: int
    begun: int
    seen: int
    read: int


class Prices(NamedTuple):
    """Costs (ps) that split a record into several parts."""

    way: Way
    post: int  # the rest of a post is checking and pinning
    fetch_init: int
    deliver_init: int
    interrupt: int  # at the end of a transfer
    own_table: bool  # the messaging looks pages up itself: that is no part of its own


def prices_of(
    way: Way, costs: Mapping[str, int], nic: Mapping[str, int], *, own_table: bool
) -> Prices:
    """The prices for nodes with such costs, and such an interface on their bus."""
    if way is Way.PCI:
        init = costs.get("pci_read_start", 0), costs.get("pci_write_start", 0)
        return Prices(way, costs["post"], *init, 0, own_table)
    init = nic["dma_init"], nic["dma_init"]
    return Prices(way, costs["post"], *init, nic["dma_interrupt"], own_table)


def parts_of(log: NDArray[Any], sent: Sent, prices: Prices) -> list[int]:
    """Ps by ``Part`` of a message; ``log`` is by ``end`` and has no other message meanwhile."""
    first, last = np.searchsorted(log["end"], [sent.begun, sent.read], side="right")
    records = [_Record(*row) for row in log[list(_Record._fields)][first:last].tolist()]
    return parted(message_spans(records, sent, prices), sent.begun, sent.read)


def parted(spans: Iterable[Span], begun: int, seen: int) -> list[int]:
    """Ps by ``Part`` from ``begun`` to ``seen``: overlapping spans count as the highest part.

    Of equal ranks it is the first span's.
    """
    kept = [one for one in spans if max(one.start, begun) < min(one.end, seen)][::-1]
    times = np.unique([begun, seen, *(at for one in kept for at in (one.start, one.end))])
    times = times[(begun <= times) & (times <= seen)]
    part = np.full(max(len(times) - 1, 0), int(Part.WAIT))
    for one in sorted(kept, key=lambda one: one.rank):  # what counts is painted last
        first, last = np.searchsorted(times, [max(one.start, begun), min(one.end, seen)])
        part[first:last] = int(one.part)
    sums = np.zeros(len(Part), np.int64)
    np.add.at(sums, part, np.diff(times))
    found: list[int] = sums.tolist()
    return found


class _Record(NamedTuple):
    """The fields of a log record that are used here."""

    node: int
    engine: int
    task: int
    control: int
    start: int
    end: int
    bytes: int
    lookup: int


def message_spans(records: Sequence[_Record], sent: Sent, prices: Prices) -> Iterator[Span]:
    """The activities for that message, by its three stages."""
    rung, told = _doorbell_end(records, sent), _notified_at(records, sent)
    yield from _sender_spans(records, sent, prices, rung)
    left = max((one.end for one in _of(records, sent.sender, Engine.NET_TX)), default=rung)
    come = min((one.end for one in _of(records, sent.sender, Engine.NET_TX)), default=told)
    for one in records:
        if one.node == sent.sender and rung <= one.start and one.end <= left:
            yield from _on_nic(one, Part.SEND, SENDING, prices)
        if one.node == sent.receiver and come <= one.start and one.end <= told:
            yield from _on_nic(one, Part.RECEIVE, RECEIVING, prices)
    for one in records:
        if one.node == sent.receiver and one.engine == Engine.CPU and one.start >= told:
            loading = Part.USER_READ if one.start >= sent.seen else Part.LIBRARY
            part = Part.COPY if one.task == COPYING else loading
            yield Span(CPU, part, one.start, one.end)


def _of(records: Sequence[_Record], node: int, engine: Engine) -> Iterator[_Record]:
    return (one for one in records if one.node == node and one.engine == engine)


def _doorbell_end(records: Sequence[_Record], sent: Sent) -> int:
    """When the sender's CPU has finished the post and rung the doorbell."""
    rung = sent.begun
    posted = False
    for one in _of(records, sent.sender, Engine.CPU):
        if one.start < sent.begun:
            continue
        if posted and (one.start != rung or one.task not in OF_CPU):
            break
        posted |= one.task == POSTING
        if posted:
            rung = one.end
    return rung


def _notified_at(records: Sequence[_Record], sent: Sent) -> int:
    """When the receiver's NIC notified the host: the last report that its poll could see."""
    polled = [
        one.start
        for one in _of(records, sent.receiver, Engine.CPU)
        if one.task == POLLING and one.end <= sent.seen
    ]
    latest = max(polled, default=sent.seen)
    for engine, task in ((Engine.REPORT, None), (Engine.FIRMWARE, Task.COMPLETE)):
        ends = [
            one.end
            for one in _of(records, sent.receiver, engine)
            if one.end <= latest and task in (None, one.task)
        ]
        if ends:
            return max(ends)
    return latest


def _sender_spans(
    records: Sequence[_Record], sent: Sent, prices: Prices, rung: int
) -> Iterator[Span]:
    """Spans of the first stage: message store, descriptor store, post."""
    left = sent.byte_count
    for one in _of(records, sent.sender, Engine.CPU):
        if one.start < sent.begun or one.end > rung:
            continue
        if one.task == POSTING:
            yield Span(CPU, Part.LIBRARY, one.start, min(one.end, one.start + prices.post))
            yield Span(CPU, Part.PIN, min(one.end, one.start + prices.post), one.end)
        elif one.task == COPYING:
            yield Span(CPU, Part.COPY, one.start, one.end)
        elif one.task == ACCESSING:
            yield Span(CPU, Part.USER_DATA if left > 0 else Part.LIBRARY, one.start, one.end)
            left -= one.bytes
        else:
            yield Span(CPU, Part.MISS, one.start, one.end)


def _on_nic(one: _Record, messaging: Part, rank: int, prices: Prices) -> Iterator[Span]:
    """The part that a record of the middle stage belongs to."""
    if one.engine == Engine.FIRMWARE and one.task == Task.MISSING:
        yield Span(rank, Part.MISS, one.start, one.end)
    elif one.engine == Engine.FIRMWARE and one.task in FOR_OTHERS:
        yield Span(BESIDE, Part.WAIT, one.start, one.end)
    elif one.engine == Engine.FIRMWARE:
        looking = messaging if prices.own_table else Part.TRANSLATION
        yield Span(rank, messaging, one.start, one.end - one.lookup)
        yield Span(rank, looking, one.end - one.lookup, one.end)
    elif one.engine == Engine.REPORT:
        yield Span(rank, messaging, one.start, one.end)
    elif one.engine == Engine.TABLE:
        yield Span(ENGINE, Part.MISS, one.start, one.end)
    elif one.engine == Engine.HOST_TX or one.engine == DESCRIPTOR:
        yield from _transfer(one, FETCHES.get(prices.way), prices.fetch_init, prices)
    elif one.engine == Engine.HOST_RCV:
        yield from _transfer(one, DELIVERS.get(prices.way), prices.deliver_init, prices)
    elif one.engine == Engine.NET_TX:
        yield Span(NETWORK, Part.NETWORK, one.start, one.end)
    elif one.engine == Engine.CPU and one.task == INTERRUPTED:
        helps = prices.way in HELPED_BY_HOST
        yield Span(CPU, Part.COPY if helps else Part.MISS, one.start, one.end)


def _transfer(one: _Record, part: Part | None, init: int, prices: Prices) -> Iterator[Span]:
    """The spans of a DMA engine's transfer: waiting for blocks, or a DMA in three parts."""
    if prices.way in UNCACHED and one.engine != DESCRIPTOR:
        return
    if part is not None:
        yield Span(ENGINE, part, one.start, one.end)
        return
    begun = min(one.end, one.start + init)
    done = max(begun, one.end - prices.interrupt)
    yield Span(ENGINE, Part.DMA_INIT, one.start, begun)
    yield Span(ENGINE, Part.DMA_EXEC, begun, done)
    yield Span(ENGINE, Part.DMA_INTERRUPT, done, one.end)


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


MOST_BYTES = 65536
MOST_PAGES = 256
DEFAULT_MECHANISMS = "edt,cc-dma-intervention,cc-dma-retry,cni,dma,pio"
DEFAULT_BYTES = "64..4096"
PLATFORM = "sonic-via"
OPTIONS = {"mtu": "--mtu", "dma_mbytes_s": "--dma-rate"}  # of their own, by setting
WAYS = tuple(way.value for way in Way)


class Question(NamedTuple):
    """Mechanisms, sizes and platform."""

    mechanisms: tuple[str, ...]
    sizes: tuple[int, ...]  # bytes, ascending
    platform: str | Path | Platform = PLATFORM
    settings: tuple[tuple[str, int], ...] = ()  # name, value
    translation: str | None = None  # a scheme, or a design; None: a table on the NIC
    entries: int | None = None  # of its cache; None: the design's
    pages: int = 1  # buffers that messages use in turn
    delivery: str = MESSAGE_STORE_AND_FORWARD


def translated(question: Question) -> tuple[Design, Translating | None]:
    """The design of the cluster, and the report's description of its translation.

    Errors: ``DesignError``, ``StudyError``.
    """
    if question.translation is None:
        return load_design(DESIGN), None
    design = load_design(DESIGNS.get(question.translation, question.translation))
    if question.entries is not None:
        try:
            design = with_settings(design, [f"entries={question.entries}"])
        except DesignError as error:
            raise StudyError(f"--entries: {str(error).partition(': ')[2]}") from None
    if design.platform is None:
        raise StudyError(
            f"design {design.name!r} names no platform, so nothing says what its misses take"
        )
    scheme = design.scheme.value
    return design, Translating(design.name, scheme, design.platform, design.entries, question.pages)


def ask(
    *,
    mechanisms: str | None = None,
    sizes: str = DEFAULT_BYTES,
    platform: str | Path | Platform = PLATFORM,
    mtu: int | None = None,
    dma_rate: int | None = None,
    overrides: Sequence[str] = (),
    translation: str | None = None,
    entries: int | None = None,
    pages: int | None = None,
    delivery: str = MESSAGE_STORE_AND_FORWARD,
) -> Question:
    """Parse and check the options.

    Errors: ``StudyError`` for the first word that makes no sense.
    """
    if delivery not in DELIVERIES:
        raise StudyError(f"no delivery {delivery!r}{did_you_mean(delivery, DELIVERIES)}")
    if translation is None:
        for option, number in (("--entries", entries), ("--pages", pages)):
            if number is not None:
                raise StudyError(f"{option} is of a translation cache; add --translation utlb")
    buffers = 1 if pages is None else pages
    if not 1 <= buffers <= MOST_PAGES:
        raise StudyError(f"--pages must be from 1 to {MOST_PAGES}, got {pages}")
    names = _names(mechanisms, delivery)
    settings: dict[str, int] = {}
    for name, value in (("mtu", mtu), ("dma_mbytes_s", dma_rate)):
        if value is not None:
            if value < 1:
                raise StudyError(f"{OPTIONS[name]} must be at least 1, got {value}")
            settings[name] = value
    for override in overrides:
        name, number = _setting(override)
        if name in settings:
            option = OPTIONS.get(name, "another --set")
            raise StudyError(f"{name} is said twice, by --set {override} and by {option}; keep one")
        settings[name] = number
    made = tuple(settings.items())
    asked = _sizes(sizes)
    longest = settings.get("max_transfer", MOST_BYTES)
    if asked[-1] > longest:
        raise StudyError(
            f"--bytes asks for {asked[-1]} bytes, more than max_transfer, {longest}; ask for less, "
            "or leave max_transfer as it is"
        )
    return Question(names, asked, platform, made, translation, entries, buffers, delivery)


def _setting(override: str) -> tuple[str, int]:
    before, equals, text = override.partition("=")
    name, number = before.strip(), _whole(text)
    if number is None and name in MACHINE:
        number = read_number(name, text)
    if number is None and name in COSTS and equals:
        number = read_cost(name, text.strip(), f"--set {override}").low_ps
    if not equals or number is None or not name:
        raise StudyError(
            "--set must be NAME=NUMBER, a whole number that is not negative, or a time, such as "
            f"cache_supply=60ns; got {override!r}"
        )
    return name, number


def _names(mechanisms: str | None, delivery: str) -> tuple[str, ...]:
    """The mechanisms asked for; by default all usual ones that support the delivery."""
    words = (DEFAULT_MECHANISMS if mechanisms is None else mechanisms).split(",")
    names = tuple(dict.fromkeys(word.strip() for word in words))
    for name in names:
        if not name:
            raise StudyError(
                f"--mechanism must list names, such as edt,dma; got {mechanisms!r}, where one "
                "is empty"
            )
        if name not in WAYS:
            raise StudyError(f"no mechanism {name!r}{did_you_mean(name.lower(), WAYS)}")
    cuts_through = POLICIES[delivery].policy == Policy.CUT_THROUGH
    makes_no_sense = {
        name: why_way_refused("VIA", name, cuts_through=cuts_through) for name in names
    }
    if mechanisms is None:
        return tuple(name for name in names if makes_no_sense[name] is None)
    for why in makes_no_sense.values():
        if why is not None:
            raise StudyError(str(why))
    return names


def _sizes(text: str) -> tuple[int, ...]:
    """Parse a list of sizes such as ``64,1500``, or ``64..4096``, by powers of two."""
    found: set[int] = set()
    for word in text.split(","):
        low, dots, high = word.partition("..")
        ends = [read_bytes(one) for one in ([low, high] if dots else [low])]
        if any(end is None or not 1 <= end <= MOST_BYTES for end in ends):
            raise StudyError(
                f"--bytes must list sizes from 1 to {MOST_BYTES}, such as 64,1500 or 64..4096; "
                f"got {word!r}"
            )
        sizes = [end for end in ends if end is not None]
        if sizes[0] > sizes[-1]:
            raise StudyError(f"--bytes must ascend, such as {high}..{low}; got {word!r}")
        if dots:
            while sizes[0] * 2 < sizes[1]:
                found.add(sizes[0])
                sizes[0] *= 2
        found.update(sizes)
    return tuple(sorted(found))


def _whole(text: str) -> int | None:
    word = text.strip().replace("_", "")
    return int(word) if word.isascii() and word.isdecimal() and len(word) < 19 else None


# Of the platform's costs, what a message's latency has in it beside the machine's times.
OF_A_MESSAGE = (
    "post",
    "poll",
    "send_queue",
    "receive_queue",
    "ni_table_read",
    "firmware_start",
    "firmware_finish",
    "link_start",
    "link_per_byte",
    "switch_hop",
)
PS_PER_CYCLE = 1000  # of the host, at 1 GHz
PS_PER_US = 10**6


class Latency(msgspec.Struct, frozen=True):
    """One mechanism and size: sums over all measured messages, picoseconds."""

    mechanism: str
    byte_count: int
    messages: int
    total_ps: int
    parts_ps: dict[str, int]  # by the name of the ``Part``, in lower case
    lookups: int = 0  # of pages in a translation cache, on both NICs, for messages both ways
    misses: int = 0

    @property
    def us(self) -> float:
        """Microseconds of one message."""
        return self.total_ps / self.messages / PS_PER_US

    def cycles(self, *parts: Part) -> float:
        """Host cycles of one message, in all or in ``parts``."""
        ps = sum(self.parts_ps[part.name.lower()] for part in parts) if parts else self.total_ps
        return ps / self.messages / PS_PER_CYCLE

    def until_seen(self) -> float:
        """Host cycles until the receiver detects the message: without its loads."""
        return self.cycles() - self.cycles(Part.USER_READ)

    def user_data(self) -> float:
        """Host cycles to write the message."""
        return self.cycles(Part.USER_DATA)

    def data_transfer(self) -> float:
        """Host cycles between host and NIC, both ends."""
        return self.cycles(*DATA_TRANSFER)

    def transport(self) -> float:
        """Host cycles of messaging on the NICs, both ends."""
        return self.cycles(*TRANSPORT)


class LatencyReport(msgspec.Struct, frozen=True):
    """All latencies."""

    platform: str
    settings: dict[str, int]  # what was changed
    mtu: int
    dma_mbytes_s: int
    evidence: dict[str, int]  # how many of the platform's times, by class
    latencies: list[Latency]
    repeat: dict[str, Any]  # how it comes again
    delivery: str = MESSAGE_STORE_AND_FORWARD
    translation: Translating | None = None

    def of(self, mechanism: str, byte_count: int) -> Latency:
        """One latency; ``KeyError`` if it was not asked for."""
        for one in self.latencies:
            if (one.mechanism, one.byte_count) == (mechanism, byte_count):
                return one
        raise KeyError((mechanism, byte_count))

    def to_json(self) -> dict[str, Any]:
        """Plain values; each latency also in microseconds."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        for row, one in zip(plain["latencies"], self.latencies, strict=True):
            row["us"] = one.us
        return plain


def measure(
    question: Question,
    command: Sequence[str] = (),
    watch: Callable[[int, int], None] | None = None,
) -> LatencyReport:
    """Play ping-pong for every mechanism and size.  ``watch`` hears packets (sent, to be sent).

    Errors: ``PlatformError``, ``SimulationError`` for settings that make no machine.
    """
    changes = dict(question.settings)
    platform = load_platform(question.platform)
    design, translating = translated(question)
    if translating is not None:
        platform = completed(platform, load_platform(translating.platform), costs_needed_by(design))
    for name in question.mechanisms:
        check_runs(Combination("VIA", platform, name, with_settings(design, [f"way={name}"])))
    settings = settings_of(platform, changes)
    latencies = []
    games = [
        (Setting(platform, name, changes, design, question.pages, question.delivery), size)
        for size in question.sizes
        for name in question.mechanisms
    ]
    packets = [2 * -(-size // settings.mtu) * sum(rounds_of(how, size)) for how, size in games]
    done, every = 0, sum(packets)
    for (how, size), sent in zip(games, packets, strict=True):
        found = ping_pong(how, size)
        parts = {part.name.lower(): found.parts[part] for part in Part}
        latencies.append(
            Latency(how.way, size, found.messages, found.total, parts, found.lookups, found.misses)
        )
        done += sent
        if watch is not None:
            watch(done, every)
    evidence: dict[str, int] = {}
    for cost in (*OF_A_MESSAGE, *MACHINE_TIMES):
        if cost in platform.costs and cost not in changes:
            kind = platform.costs[cost].origin.evidence.value
            evidence[kind] = evidence.get(kind, 0) + 1
    return LatencyReport(
        platform.name,
        changes,
        settings.mtu,
        settings.nic["dma_mbytes_s"],
        evidence,
        latencies,
        repeat(command),
        question.delivery,
        translating,
    )
