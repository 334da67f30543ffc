"""The explorer's answers about one trace: passes in the background, results kept."""

from __future__ import annotations

import functools
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.config.costs import COSTS
from nicscope.config.design import (
    NONE,
    SCHEMES,
    SETTINGS,
    Scheme,
    design_names,
    load_design,
    with_settings,
)
from nicscope.config.glossary import meaning_of
from nicscope.config.platform import Platform, load_platform
from nicscope.config.toml_files import is_path
from nicscope.drivers.replay import replay
from nicscope.drivers.replay.page_numbering import NO_GRAIN
from nicscope.errors import StudyError, did_you_mean, printable
from nicscope.inputs import STDIN
from nicscope.studies.curves import Question, curves_of
from nicscope.studies.replaying import Priced, with_price
from nicscope.studies.size_search import LINES
from nicscope.studies.size_survey import Grids, grids
from nicscope.studies.sizing import at_shape, follows, grid_of
from nicscope.studies.sources import chunks_until, rows_of
from nicscope.studies.sweep.sweeping import load
from nicscope.studies.workers import Stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from nicscope.config.design import Design
    from nicscope.drivers.replay.columns import OnlyRequests
    from nicscope.traces.reader import Trace

PATIENCE_S = 3.0  # a wish that is not repeated for so long is nobody's any more


class Pass(NamedTuple):
    """One pass over the trace; ``work`` consumes its batches and keeps its result."""

    key: Hashable
    what: str  # is counted, for people
    work: Callable[[Iterator[OnlyRequests]], None]


class Working(NamedTuple):
    """The progress of a pass, in rows."""

    what: str
    done: int
    total: int


class Passes:
    """The passes over one trace, made one after the other by a thread."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.finished: set[Hashable] = set()
        self.seconds: list[tuple[str, float]] = []  # of each pass that was finished
        self.failure: BaseException | None = None  # what ended it all
        self._failed: dict[Hashable, str] = {}  # why a pass was not finished
        self._columns: OnlyRequests | None = None
        self._wishes: dict[Hashable, tuple[Pass, float]] = {}  # with the time of the last asking
        self._likely: list[Pass] = []
        self._running: tuple[Pass, bool] | None = None  # and whether anybody waits for it
        self._done = 0
        self._changed = threading.Condition()
        self._over = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and wait briefly for it."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._thread.join(2.0)

    def expect(self, one: Pass) -> None:
        """Schedule a pass at low priority."""
        with self._changed:
            if not self.is_over(one) and all(one.key != each.key for each in self._likely):
                self._likely.append(one)
            self._changed.notify_all()

    def prefer(self, one: Pass) -> None:
        """Schedule a pass at medium priority: before expected ones, after those asked for."""
        with self._changed:
            if not self.is_over(one):
                self._likely = [one, *(each for each in self._likely if each.key != one.key)]
            self._changed.notify_all()

    def ask(self, one: Pass) -> None:
        """Schedule a pass at high priority, as somebody waits for it.

        Errors: ``StudyError`` if it was made and failed; after that it is tried again.
        """
        with self._changed:
            if (why := self._failed.pop(one.key, None)) is not None:
                raise StudyError(why)
            if one.key not in self.finished:
                self._wishes.pop(one.key, None)
                self._wishes[one.key] = one, time.monotonic()
                if self._running is not None and self._running[0].key == one.key:
                    self._running = self._running[0], True
            self._changed.notify_all()

    def is_over(self, one: Pass) -> bool:
        """Whether the pass has finished or failed."""
        return one.key in self.finished or one.key in self._failed

    def why_failed(self, one: Pass) -> str | None:
        """The error of a failed pass; None if it has not failed."""
        return self._failed.get(one.key)

    def progress(self) -> Working:
        """The progress of the current pass; errors: the one that ended the thread."""
        if self.failure is not None:
            raise StudyError(str(self.failure) or type(self.failure).__name__) from self.failure
        if self._columns is None:
            return Working("reading the trace", 0, self.trace.rows)
        running = self._running
        return Working(running[0].what if running else "waiting", self._done, self.trace.rows)

    def wait_until(self, is_true: Callable[[], bool], seconds: float) -> bool:
        """Whether ``is_true()`` comes true within ``seconds``; asked whenever a pass ends."""
        with self._changed:
            return self._changed.wait_for(lambda: is_true() or bool(self.failure), seconds)

    def sample(self, rows: int) -> list[Any]:
        """The first requests of every node, ``rows`` of all; none while the trace is read."""
        if self._columns is None:
            return []
        nodes = self._columns.node
        begins = [0, *(np.flatnonzero(np.diff(nodes)) + 1).tolist()]
        each = max(1, rows // len(begins))
        ends = [*begins[1:], len(nodes)]
        return [
            rows_of(self._columns, slice(begin, min(end, begin + each)))
            for begin, end in zip(begins, ends, strict=True)
        ]

    @property
    def is_idle(self) -> bool:
        """Whether no scheduled pass is left."""
        return self._columns is not None and not (self._running or self._wishes or self._likely)

    def _run(self) -> None:
        try:
            self._columns = load(self.trace, "explore a part of the trace")
            while (one := self._next()) is not None:
                self._make(one)
        except BaseException as error:
            with self._changed:
                self.failure = error
                self._changed.notify_all()

    def _next(self) -> Pass | None:
        """Wait for the next pass; None at the end."""
        with self._changed:
            while not self._over:
                now = time.monotonic()
                for key, (_, since) in list(self._wishes.items()):
                    if now - since > PATIENCE_S or key in self.finished:
                        del self._wishes[key]
                if self._wishes:
                    one = next(reversed(self._wishes.values()))[0]
                    self._running, self._done = (one, True), 0
                    return one
                if self._likely:
                    self._running, self._done = (self._likely[0], False), 0
                    return self._likely[0]
                self._changed.notify_all()
                self._changed.wait()
        return None

    def _make(self, one: Pass) -> None:
        began = time.monotonic()
        try:
            one.work(self._batches())
        except Stopped:
            with self._changed:
                self._running = None
            return
        except Exception as error:  # of this pass alone, such as one design too many for the memory
            why = str(error) or type(error).__name__
            if isinstance(error, MemoryError):
                why = "there is not enough memory; choose smaller sizes"
            with self._changed:
                self._failed[one.key] = f"{one.what}: {why}"
                self._leave(one)
            return
        with self._changed:
            self.finished.add(one.key)
            self.seconds.append((one.what, time.monotonic() - began))
            self._leave(one)

    def _leave(self, one: Pass) -> None:
        """Mark the pass as over and notify those who wait."""
        self._wishes.pop(one.key, None)
        self._likely = [each for each in self._likely if each.key != one.key]
        self._running = None
        self._changed.notify_all()

    def _batches(self) -> Iterator[Any]:
        """The trace in batches; ``Stopped`` if a more urgent pass is scheduled."""
        assert self._columns is not None

        def stopped() -> bool:
            running = self._running
            is_wanted = running is None or running[1]
            return self._over or (bool(self._wishes) and not is_wanted)

        for piece in chunks_until(stopped, [self._columns]):
            yield piece
            self._done += len(piece.node)


DESIGN = "design"
FIRST = "utlb"
# What the page has controls for; the design file has the rest.
EXPLORED = ("entries", "ways", "line", "page_size", "prefetch", "pin_limit")
WAYS = (1, 2, 4, 8, 16)
MOST_BITS = 20  # of entries: where the slider ends
CHOICES: dict[str, tuple[int, ...]] = {
    "entries": tuple(1 << bits for bits in range(4, MOST_BITS + 1)),
    "ways": WAYS,
    "line": tuple(1 << bits for bits in range(8)),
    "page_size": (4096, 16384, 65536, 1 << 21),
    "prefetch": tuple(1 << bits for bits in range(6)),
    "pin_limit": tuple(1 << bits for bits in range(4, 21, 2)),
}


TOPIC = "explore"  # of the glossary


class Offered(NamedTuple):
    """A selectable design and its platform."""

    design: Design
    platform: Platform | None
    is_file: bool  # of a user's own, and none of the catalog's


class State(NamedTuple):
    """A design with the settings of the controls, and its platform."""

    called: str  # the design: by its name in the catalog, or the path of its file
    base: Design
    design: Design
    platform: Platform | None

    @property
    def assignments(self) -> list[str]:
        """The settings that differ from the offered design, as ``--set`` takes them."""
        before, now = self.base.settings(), self.design.settings()
        return [f"{key}={_text(now[key])}" for key in EXPLORED if now.get(key) != before.get(key)]

    @property
    def query(self) -> list[tuple[str, str]]:
        """The canonical query string."""
        pairs = [each.split("=", 1) for each in self.assignments]
        return [(DESIGN, self.called), *((key, text) for key, text in pairs)]

    def command(self, trace: str) -> list[str]:
        """Arguments with which ``nicscope replay`` gives the same numbers."""
        words = [word for each in self.assignments for word in ("--set", each)]
        return ["nicscope", "replay", trace, "--design", self.called, *words]


def offer(given: Sequence[str] = ()) -> dict[str, Offered]:
    """All selectable designs by name: ``given`` first, then the catalog's.

    Files are read now, so an address names none that was not given here.  Errors: ``DesignError``
    or ``PlatformError`` for the first that is wrong.
    """
    order = list(Scheme)
    rest = sorted(design_names(), key=lambda name: order.index(load_design(name).scheme))
    return {printable(name): _offered(name) for name in dict.fromkeys([*given, *rest])}


def _offered(name: str) -> Offered:
    design = load_design(name)
    platform = None if design.platform is None else load_platform(design.platform)
    return Offered(design, platform, is_path(name) or name == STDIN)


def read_state(
    pairs: Iterable[tuple[str, str]], offered: Mapping[str, Offered], first: str = FIRST
) -> State:
    """Parse a query into a state, of a design of ``offered`` or else of ``first``.

    Errors: ``StudyError`` for an unknown or repeated key, ``DesignError`` for what no design can
    have.
    """
    given: dict[str, str] = {}
    for key, text in pairs:
        if key not in (DESIGN, *EXPLORED):
            raise StudyError(f"{key!r}: no such control{did_you_mean(key, [DESIGN, *EXPLORED])}")
        if key in given:
            raise StudyError(f"{key!r} is there twice; give it one value")
        given[key] = text
    name = given.pop(DESIGN, first)
    if name not in offered:  # a page has no business with files
        raise StudyError(
            f"no design {name!r}{did_you_mean(name, offered)}; "
            "a file of your own is offered by --design when the command begins"
        )
    base, platform, _ = offered[name]
    design = base
    if given:
        design = with_settings(base, [f"{key}={text}" for key, text in given.items()])
    return State(name, base, design, platform)


def controls(state: State, recorded: int) -> dict[str, Any]:
    """Each control's value and choices, and whether the scheme has it at all.

    ``recorded``: bytes of the trace's pages, which hold unless others are chosen.
    """
    values = state.design.settings()
    found: dict[str, Any] = {}
    for key in EXPLORED:
        is_used = key in SCHEMES[state.design.scheme].uses
        value = values.get(key)
        choices = set(CHOICES[key])
        if key == "page_size":
            value = value or recorded
            choices.add(recorded)
        if value is not None:
            choices.add(int(value))
        found[key] = {
            "used": is_used,
            "value": value,
            "choices": sorted(choices) if is_used else [],
            "optional": SETTINGS[key].optional and key != "page_size",
            "meaning": _meaning(key),
        }
    return found


@functools.cache  # as it is a part of each answer
def _meaning(key: str) -> str:
    term = meaning_of(key, TOPIC)
    return SETTINGS[key].meaning if term is None else term.term.means


def _text(value: Any) -> str:
    return NONE if value is None else str(value)


MOST_ENTRIES = 1 << MOST_BITS
NEIGHBOURS = tuple(1 << bits for bits in range(6, 17))  # entries that are replayed for a curve
SAMPLE_ROWS = 1 << 16  # of a longer trace, answered from before its own pass is over
AT_ONCE_S = 0.1  # for a pass over a short trace, before it is said that it takes longer
_SHAPE = ("entries", "ways")


class Explorer:
    """Answers about one trace, which ``nicscope replay`` opens as ``name``.

    ``designs``: names of the catalog, and files that are offered beside it; the first of them is
    what an address without a design means.  Errors: as ``offer``.
    """

    def __init__(self, name: str, trace: Trace, designs: Sequence[str] = ()) -> None:
        self.name = printable(name)  # as a page can show it, whatever bytes a file is called
        self.trace = trace
        self.asked = list(dict.fromkeys(designs))
        self.offered = offer(self.asked)
        self.first = printable(self.asked[0]) if self.asked else FIRST
        self.page_size = trace.metadata.page_size
        self.passes = Passes(trace)
        self._replayed: dict[Hashable, Priced] = {}
        self._sampled: dict[Hashable, tuple[Priced, int]] = {}  # and of how many requests
        self._bases: dict[Hashable, Priced] = {}  # by all but the shape of the cache
        self._surveyed: dict[int, Grids] = {}  # misses of all shapes, by bytes of a page
        self._fully: dict[tuple[int, int], NDArray[Any]] = {}  # by bytes of a page, and line
        every = [self.page_size, *(size for size in CHOICES["page_size"] if size != self.page_size)]
        for size in every:
            self.passes.expect(self._survey(size, (1,)))
            self.passes.expect(self._every_design(size))
            self.passes.expect(self._survey(size, LINES))

    @property
    def command(self) -> list[str]:
        """The arguments that start the explorer again."""
        chosen = [word for name in self.asked for word in ("--design", printable(name))]
        return ["nicscope", "explore", self.name, *chosen]

    def read(self, pairs: Sequence[tuple[str, str]]) -> State:
        """Parse a query; errors: as ``read_state``.

        The trace's own page size is no setting, unless the design states another.
        """
        state = self._state(pairs)
        if state.base.page_size is None and state.design.page_size == self.page_size:
            return self._state([pair for pair in pairs if pair[0] != "page_size"])
        return state

    def _state(self, pairs: Sequence[tuple[str, str]]) -> State:
        return read_state(pairs, self.offered, self.first)

    def answer(self, state: State, patience: float = AT_ONCE_S) -> dict[str, Any]:
        """Everything that the page shows of ``state``, or ``working`` if that takes longer.

        Of a long trace that is beside ``sample``, the requests that the numbers are of until then.

        Errors: ``StudyError`` with what kept the trace from being read, or the design from being
        replayed.
        """
        design = state.design.at_page_size(self.page_size)
        shown: dict[str, Any] = {
            "query": state.query,
            "design": {"called": state.called, "name": state.base.name, "title": state.base.title}
            | {"scheme": design.scheme.value, "description": state.base.description},
            "controls": controls(state, self.page_size),
            "command": state.command(self.name),
        }
        priced = self.known(state)
        if priced is None:
            one = self._replay([state], f"replaying {state.called}")
            self.passes.ask(one)
            if self.trace.rows <= SAMPLE_ROWS or patience > AT_ONCE_S:
                self.passes.wait_until(
                    lambda: self.known(state) is not None or self.passes.is_over(one), patience
                )
            priced = self.known(state)
        if priced is None:
            shown["working"] = self.passes.progress()._asdict()
            if (found := self._of_sample(state, design)) is None:
                return shown
            priced, shown["sample"] = found
        platform = None if state.platform is None else state.platform.name
        weakest = priced.weakest_evidence
        return shown | {
            "total": priced.result.total,
            "cost_us": priced.cost.to_json() | {"platform": platform},
            "meanings": {
                part.name: f"{COSTS[part.cost].meaning}; per {COSTS[part.cost].per}"
                for part in priced.cost.components
            },
            "weakest_evidence": None if weakest is None else weakest.value,
            "nic_memory_bytes": priced.result.nic_memory_bytes,
            "page_size": design.page_size,
            "replayed": self._key(design, state) in self._replayed,
            "curve": self._curve(state, design),
        }

    def known(self, state: State) -> Priced | None:
        """The replay's numbers without kinds of misses; None: not counted yet."""
        design = state.design.at_page_size(self.page_size)
        found = self._replayed.get(self._key(design, state))
        if found is not None:
            return found
        base = self._bases.get(self._policy(design, state))
        surveyed = self._surveyed.get(design.page_size or self.page_size)
        grid = None if surveyed is None else grid_of(design, surveyed)
        if base is None or grid is None:
            return None
        return at_shape(base, design, grid, state.platform)

    def _of_sample(self, state: State, design: Design) -> tuple[Priced, int] | None:
        """The numbers of a long trace's first requests, and how many these are."""
        key = self._key(design, state)
        if key not in self._sampled:
            pieces = [] if self.trace.rows <= SAMPLE_ROWS else self.passes.sample(SAMPLE_ROWS)
            if not pieces:
                return None
            [result] = replay(pieces, [design], kinds=False, page_size=self.page_size)
            count = sum(len(piece.node) for piece in pieces)
            self._sampled[key] = with_price(result, state.platform), count
        return self._sampled[key]

    def _key(self, design: Design, state: State) -> Hashable:
        return (state.called, *design.settings().items())

    def _policy(self, design: Design, state: State) -> Hashable:
        rest = [pair for pair in design.settings().items() if pair[0] not in _SHAPE]
        return (state.called, *rest)

    def _survey(self, page_size: int, lines: Sequence[int]) -> Pass:
        def work(batches: Iterator[OnlyRequests]) -> None:
            found = grids(batches, page_size, lines, MOST_ENTRIES)
            before = self._surveyed.get(page_size)
            plain = {**(before.plain if before else {}), **found.plain}
            self._surveyed[page_size] = Grids(found.offset, plain)

        return Pass(("survey", page_size, *lines), "counting every cache in one pass", work)

    def _every_design(self, page_size: int) -> Pass:
        """Every offered design, with that page size."""
        states = []
        for called in self.offered:
            query = [("design", called)]
            if page_size != self.page_size:
                query.append(("page_size", str(page_size)))
            states.append(self._state(query))
        one = self._replay(states, "replaying every design that is offered")
        return one._replace(key=("every design", page_size))

    def _replay(self, states: Sequence[State], what: str) -> Pass:
        designs = [state.design.at_page_size(self.page_size) for state in states]

        def work(batches: Iterator[OnlyRequests]) -> None:
            results = replay(batches, designs, kinds=False, page_size=self.page_size)
            for state, design, result in zip(states, designs, results, strict=True):
                priced = with_price(result, state.platform)
                self._replayed[self._key(design, state)] = priced
                self._bases.setdefault(self._policy(design, state), priced)

        keys = [self._key(one, state) for one, state in zip(designs, states, strict=True)]
        return Pass(("replay", *keys), what, work)

    def _curve(self, state: State, design: Design) -> dict[str, Any]:
        """Misses by number of entries; ``pending``: more points will follow.

        Of each number of ways where one pass tells them, else of the chosen one, replayed.
        ``failed`` is why what is not there never will be, None if it will.
        """
        if design.entries is None:
            return _curve_of([])
        if not follows(design):
            return self._replayed_curve(state, design)
        size, line = design.page_size or self.page_size, design.line or 1
        surveyed = self._surveyed.get(size)
        grid = None if surveyed is None else grid_of(design, surveyed)
        if grid is None:
            return _curve_of([], awaited=self._schedule_soon(self._survey(size, (line,))))
        awaited = None
        if (size, line) not in self._fully:
            awaited = self._schedule_soon(self._fully_associative(size, line))
        lines = []
        for ways in sorted({*WAYS, design.ways or 1}):
            told = [
                (count, grid.misses_of(count, ways))
                for count in CHOICES["entries"]
                if count >= ways * line
            ]
            points = [each for each in told if each[1] is not None]
            lines += [{"ways": ways, "points": points}] if points else []
        fully = self._fully.get((size, line))
        counts = [count for count in CHOICES["entries"] if count >= line]
        whole = (
            []
            if fully is None
            else [(count, int(fully[min(count // line, len(fully) - 1)])) for count in counts]
        )
        return _curve_of(lines, whole, awaited)

    def _schedule_soon(self, one: Pass) -> _PendingPass:
        """Schedule the pass soon, unless it has failed."""
        self.passes.prefer(one)
        return _PendingPass(not self.passes.is_over(one), self.passes.why_failed(one))

    def _fully_associative(self, page_size: int, line: int) -> Pass:
        """Fully associative caches of every size."""
        alone = Question(ways=(2,), lines=(line,), entries=(1, 1))  # no room for a set of two

        def work(batches: Iterator[OnlyRequests]) -> None:
            [curve] = curves_of(self.name, lambda: batches, alone, page_size, NO_GRAIN)
            assert curve.every_size is not None
            self._fully[page_size, line] = curve.every_size

        return Pass(("fully", page_size, line), "measuring fully associative caches", work)

    def _replayed_curve(self, state: State, design: Design) -> dict[str, Any]:
        least = (design.ways or 1) * (design.line or 1)
        rest = [pair for pair in state.query if pair[0] != "entries"]
        states = [
            self._state([*rest, ("entries", str(count))]) for count in NEIGHBOURS if count >= least
        ]
        one = self._replay(states, "replaying the same design with other numbers of entries")
        awaited = self._schedule_soon(one)
        told = {
            each.design.entries: priced.total("ni_misses")
            for each in [*states, state]
            if (priced := self.known(each)) is not None
        }
        points = [(count, told[count]) for count in sorted(told, key=lambda each: each or 0)]
        return _curve_of([{"ways": design.ways or 1, "points": points}], awaited=awaited)


class _PendingPass(NamedTuple):
    """A pass that will complete a curve."""

    pending: bool
    failed: str | None


def _curve_of(
    lines: list[dict[str, Any]],
    whole: Sequence[tuple[int, int]] = (),
    awaited: _PendingPass | None = None,
) -> dict[str, Any]:
    """A curve in the page's format."""
    rest = awaited or _PendingPass(pending=False, failed=None)
    return {"lines": lines, "fully_associative": whole, **rest._asdict()}
