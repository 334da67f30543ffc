"""A ping-pong with a prescribed miss ratio on one node (miNI V.B).

The ratio is set as in the paper, by the choice of buffers: a hit goes to lines that stay in the
cache, a miss to the next of several buffers whose lines share sets and are more than these hold.
A message looks up each of its pages.  In lines of one page each of them can miss, so the ratio of
messages is the cache's, per lookup; in lines that hold the message it misses once or not at all.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.config.design import Design, load_design, with_settings
from nicscope.drivers.simulate.ports.build import HostSize
from nicscope.interfaces.mini import Cluster, Endpoint
from nicscope.nic.ports.streams import stream_to

if TYPE_CHECKING:
    from fractions import Fraction

PAGE = 4096  # bytes
PS_PER_US = 1_000_000
WARM_UP = 3  # round trips before anything is measured: every handle comes to the NICs
ROUND_TRIPS = 200
BEGINNER, ANSWERER = 0, 1


class Parts(NamedTuple):
    """The mean breakdown (us) of a round trip whose request misses once."""

    first_try: float  # from the post until the miss
    delay: float  # from the interrupt until the thread runs
    processing: float  # until the entries are in the cache
    timer: float  # until the sender's timer runs out
    sending_again: float  # until the answer is there


class Trip(NamedTuple):
    """One round trip, with ``parts`` if its request missed and can miss only once."""

    round_trip_us: float
    parts: Parts | None
    missed: bool = False


class MissPoint(NamedTuple):
    """The result for one size and one ratio."""

    byte_count: int
    asked: float
    trips: tuple[Trip, ...]
    misses: int  # of pages of requests that the answering node has taken
    other_misses: int  # of the node that begins

    @property
    def latency_us(self) -> float:
        """One way: half of a round trip, on average."""
        return sum(trip.round_trip_us for trip in self.trips) / len(self.trips) / 2

    @property
    def mbytes_s(self) -> float:
        """Bytes over latency."""
        return self.byte_count / self.latency_us

    @property
    def hit_us(self) -> float | None:
        """The mean round trip without a miss."""
        hits = [trip.round_trip_us for trip in self.trips if not trip.missed]
        return sum(hits) / len(hits) if hits else None

    @property
    def parts(self) -> Parts | None:
        """The mean breakdown of the round trips that missed once."""
        missed = [trip.parts for trip in self.trips if trip.parts is not None]
        if not missed:
            return None
        return Parts(*(sum(column) / len(missed) for column in zip(*missed, strict=True)))


def by_page() -> Design:
    """MiNI's best cache with lines of a single page, so that each page can miss."""
    return with_settings(load_design("mini"), ["line=1"])


def measure(
    byte_count: int,
    ratio: float,
    round_trips: int = ROUND_TRIPS,
    design: str | Design = "mini",
    place: Fraction | None = None,
    *,
    busy_us: float = 0.0,
    busy_programs: int = 1,
    pinned: bool = True,
) -> MissPoint:
    """Play ``round_trips`` of ``byte_count`` bytes, a share ``ratio`` of which misses.

    ``design`` must be of scheme handle.  ``place``: of the platform's ranges, see ``PortCluster``.
    With ``busy_us`` so many ``busy_programs`` on the answering node work without rest, so long at
    a time.  With ``pinned`` the host's table has what misses; else each miss is the first use of
    its pages, which the program has written.
    """
    play = _Play(byte_count, ratio, round_trips, design, place, pinned)
    return play.run(busy_us, busy_programs)


class _Play:
    def __init__(
        self,
        byte_count: int,
        ratio: float,
        round_trips: int,
        design: str | Design,
        place: Fraction | None,
        pinned: bool,
    ) -> None:
        self.is_over = False
        self.byte_count, self.ratio, self.round_trips = byte_count, ratio, round_trips
        chosen = load_design(design) if isinstance(design, str) else design
        chosen = chosen.at_page_size(PAGE)
        assert chosen.entries is not None
        line, ways = chosen.line or 1, chosen.ways or 1
        self.lines = -(-byte_count // (line * PAGE))  # of a message
        area = self.lines * line  # pages
        stride = chosen.entries // ways  # pages from a line to the next of its set
        if 2 * area > stride:
            raise ValueError(f"{byte_count} bytes are more than half of a way of the cache")
        self.area = area * PAGE
        self.hot = self.area  # behind the first of those that miss, so of the next sets
        pages = [place * stride for place in range(ways + 1)]
        if not pinned:
            pages = [area * (2 + trip) for trip in range(round_trips)]
        self.cold = [page * PAGE for page in pages]
        self.before_trips = WARM_UP + (len(self.cold) if pinned else 0)
        self.length = (pages[-1] + area) * PAGE
        own_pages = -(-byte_count // PAGE) * 2 + 2 * line
        frames = area * (len(pages) + 2) + own_pages + 64
        spread = -(-(self.length // PAGE + own_pages) // line) * line
        options: dict[str, Any] = {} if place is None else {"place": place}
        self.cluster = Cluster(
            chosen, host=HostSize(frames=frames, pages_per_space=spread), **options
        )
        self.trips: list[Trip] = []
        self.before = (0, 0)
        self.turn = 0  # of the buffers that miss

    def run(self, busy_us: float, busy_programs: int) -> MissPoint:
        async def work(end: Endpoint) -> None:
            while not self.is_over:
                await end.compute(busy_us)

        self.cluster.start(BEGINNER, self._ask)
        self.cluster.start(ANSWERER, self._answer)
        for _ in range(busy_programs if busy_us else 0):
            self.cluster.start(ANSWERER, work)
        self.cluster.run()
        after = self._misses()
        return MissPoint(
            self.byte_count,
            self.ratio,
            tuple(self.trips),
            after[ANSWERER] - self.before[ANSWERER],
            after[BEGINNER] - self.before[BEGINNER],
        )

    def _misses(self) -> tuple[int, int]:
        first, second = (self.cluster.counts(n)["ni_misses"] or 0 for n in (BEGINNER, ANSWERER))
        return first, second

    def _shall_miss(self, trip: int) -> bool:
        """Whether this trip misses: misses are spread evenly over the run."""
        return round((trip + 1) * self.ratio, 6) // 1 > round(trip * self.ratio, 6) // 1

    async def _answer(self, end: Endpoint) -> None:
        arena = end.allocate(self.length)
        own = end.allocate(self.byte_count)
        await own.write(bytes(self.byte_count))
        for place in (self.hot, *self.cold):
            await arena.write(bytes(self.area), place)
        await end.register(arena, name="arena")
        answers = await end.open(await end.find("answers"))
        for _ in range(self.before_trips + self.round_trips):
            await end.stored()
            await end.write(answers, own)
            await end.done()

    async def _ask(self, end: Endpoint) -> None:
        into = end.allocate(self.byte_count)
        own = end.allocate(self.byte_count)
        await own.write(bytes(self.byte_count))
        await end.register(into, name="answers")
        arena = await end.open(await end.find("arena"))
        for trip in range(-self.before_trips, self.round_trips):
            if trip == 0:
                self.before = self._misses()
            missed = trip < -WARM_UP or (trip >= 0 and self._shall_miss(trip))
            place = self.hot
            if missed:
                place = self.cold[self.turn % len(self.cold)]
                self.turn += 1
            begun = end.now_us
            await end.write(arena, own, offset=place)
            await end.stored()
            if trip >= 0:
                self.trips.append(self._trip(begun, end.now_us, missed))
            await end.done()
        self.is_over = True

    def _trip(self, begun: float, ended: float, missed: bool) -> Trip:
        if not missed or self.lines > 1:
            return Trip(ended - begun, None, missed)
        assert self.cluster.simulation is not None
        ports = self.cluster.simulation.machine.ports
        handled = int(ports.nodes[ANSWERER]["handled"]) - 1
        event = ports.events[ANSWERER, handled % ports.events.shape[1]]
        ran_out = int(stream_to(ports, BEGINNER, ANSWERER)["timed_out_at"])
        stations = (int(event["raised"]), int(event["begun"]), int(event["ended"]), ran_out)
        times = [begun, *(each / PS_PER_US for each in stations), ended]
        return Trip(
            ended - begun,
            Parts(*(late - early for early, late in pairwise(times))),
            missed,
        )
