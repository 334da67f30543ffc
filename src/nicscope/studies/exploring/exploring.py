"""What the design of a state does with the trace: at once where it is counted, else how far it is.

Every count is replay's, or follows from one replay and one pass over all caches as ``size`` has it
(``nicscope.studies.sizing.merit``): the numbers of ``nicscope replay``, whichever way they came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.config.cost_name import COSTS
from nicscope.drivers.replay import replay
from nicscope.drivers.replay.grain import NO_GRAIN
from nicscope.errors import printable
from nicscope.studies.curve_question import Question
from nicscope.studies.curves import curves_of
from nicscope.studies.exploring.passes import Pass, Passes
from nicscope.studies.exploring.state import (
    CHOICES,
    FIRST,
    MOST_BITS,
    WAYS,
    State,
    offer,
    read_state,
)
from nicscope.studies.exploring.state import controls as controls_of
from nicscope.studies.replaying import with_price
from nicscope.studies.sizing.merit import at_shape, follows, grid_of
from nicscope.studies.sizing.shapes import LINES
from nicscope.studies.sizing.survey import Grids, grids

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from numpy.typing import NDArray

    from nicscope.config.design import Design
    from nicscope.studies.replaying import Priced
    from nicscope.studies.sweep.tally import Columns
    from nicscope.traces.reader import Trace

MOST_ENTRIES = 1 << MOST_BITS
NEIGHBOURS = tuple(1 << bits for bits in range(6, 17))  # entries that are replayed for a curve
AT_ONCE_S = 0.1  # for a pass over a short trace, before it is said that it takes longer
_SHAPE = ("entries", "ways")


class _Surveyed:
    """The caches of all shapes for pages of one size."""

    def __init__(self, found: Grids) -> None:
        self.grids = found


class Explorer:
    """Answers about one trace, which ``nicscope replay`` finds as ``name``.

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
        self._bases: dict[Hashable, Priced] = {}  # by all but the shape of the cache
        self._surveyed: dict[int, _Surveyed] = {}  # by bytes of a page
        self._fully: dict[tuple[int, int], NDArray[Any]] = {}  # by bytes of a page, and line
        every = [self.page_size, *(size for size in CHOICES["page_size"] if size != self.page_size)]
        for size in every:
            self.passes.expect(self._survey(size, (1,)))
            self.passes.expect(self._every_design(size))
            self.passes.expect(self._survey(size, LINES))

    @property
    def command(self) -> list[str]:
        """Arguments that begin it again."""
        chosen = [word for name in self.asked for word in ("--design", printable(name))]
        return ["nicscope", "explore", self.name, *chosen]

    def read(self, pairs: Sequence[tuple[str, str]]) -> State:
        """The state that a query spells; errors: as ``read_state``.

        The trace's own page size is no setting, unless the design states another.
        """
        state = self._state(pairs)
        if state.base.page_size is None and state.design.page_size == self.page_size:
            return self._state([pair for pair in pairs if pair[0] != "page_size"])
        return state

    def _state(self, pairs: Sequence[tuple[str, str]]) -> State:
        return read_state(pairs, self.offered, self.first)

    def answer(self, state: State, patience: float = AT_ONCE_S) -> dict[str, Any]:
        """All that the page shows of ``state``; ``working`` instead of it if that takes longer.

        Errors: ``StudyError`` with what kept the trace from being read, or the design from being
        replayed.
        """
        design = state.design.at_page_size(self.page_size)
        shown = {
            "query": state.query,
            "design": {"called": state.called, "name": state.base.name, "title": state.base.title}
            | {"scheme": design.scheme.value, "description": state.base.description},
            "controls": controls_of(state, self.page_size),
            "command": state.command(self.name),
        }
        priced = self.known(state)
        if priced is None:
            one = self._replay([state], f"replaying {state.called}")
            self.passes.ask(one)
            self.passes.wait_until(
                lambda: self.known(state) is not None or self.passes.is_over(one), patience
            )
            priced = self.known(state)
        if priced is None:
            return shown | {"working": self.passes.progress()._asdict()}
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
        """What ``nicscope replay`` tells of it, kinds of misses left out; None: not counted yet."""
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

    def _key(self, design: Design, state: State) -> Hashable:
        return (state.called, *design.settings().items())

    def _policy(self, design: Design, state: State) -> Hashable:
        rest = [pair for pair in design.settings().items() if pair[0] not in _SHAPE]
        return (state.called, *rest)

    def _survey(self, page_size: int, lines: Sequence[int]) -> Pass:
        def work(batches: Iterator[Columns]) -> None:
            found = grids(batches, page_size, lines, MOST_ENTRIES)
            before = self._surveyed.get(page_size)
            plain = {**(before.grids.plain if before else {}), **found.plain}
            self._surveyed[page_size] = _Surveyed(Grids(found.offset, plain))

        return Pass(("survey", page_size, *lines), "counting every cache in one pass", work)

    def _every_design(self, page_size: int) -> Pass:
        """Every design that is offered, as it is but for the pages."""
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

        def work(batches: Iterator[Columns]) -> None:
            results = replay(batches, designs, kinds=False, page_size=self.page_size)
            for state, design, result in zip(states, designs, results, strict=True):
                priced = with_price(result, state.platform)
                self._replayed[self._key(design, state)] = priced
                self._bases.setdefault(self._policy(design, state), priced)

        keys = [self._key(one, state) for one, state in zip(designs, states, strict=True)]
        return Pass(("replay", *keys), what, work)

    def _curve(self, state: State, design: Design) -> dict[str, Any]:
        """Misses at every number of entries; ``pending``: more of it will come.

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
            return _curve_of([], awaited=self._preferred(self._survey(size, (line,))))
        awaited = None
        if (size, line) not in self._fully:
            awaited = self._preferred(self._fully_associative(size, line))
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

    def _preferred(self, one: Pass) -> _Awaited:
        """That pass is made soon, unless it has failed."""
        self.passes.prefer(one)
        return _Awaited(not self.passes.is_over(one), self.passes.why_failed(one))

    def _fully_associative(self, page_size: int, line: int) -> Pass:
        """Caches in which a line may be anywhere, of every size."""
        alone = Question(ways=(2,), lines=(line,), entries=(1, 1))  # no room for a set of two

        def work(batches: Iterator[Columns]) -> None:
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
        awaited = self._preferred(one)
        told = {
            each.design.entries: priced.total("ni_misses")
            for each in [*states, state]
            if (priced := self.known(each)) is not None
        }
        points = [(count, told[count]) for count in sorted(told, key=lambda each: each or 0)]
        return _curve_of([{"ways": design.ways or 1, "points": points}], awaited=awaited)


class _Awaited(NamedTuple):
    """A pass that the rest of a curve comes of."""

    pending: bool
    failed: str | None


def _curve_of(
    lines: list[dict[str, Any]],
    whole: Sequence[tuple[int, int]] = (),
    awaited: _Awaited | None = None,
) -> dict[str, Any]:
    """A curve as the page gets it."""
    rest = awaited or _Awaited(pending=False, failed=None)
    return {"lines": lines, "fully_associative": whole, **rest._asdict()}
