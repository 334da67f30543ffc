"""Looking for the best designs by replay, all families side by side.

Four rounds.  Every shape with the first policies; every policy on the best shape within each
budget; what to unpin, where that matters; and the policies that won on every shape that may be
best for some size of memory.  A round is one pass over the trace, or as many as memory asks for.
What is chosen is the best of what was replayed; nothing is estimated.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TYPE_CHECKING

from nicscope.config.design import with_settings
from nicscope.config.scheme import USES
from nicscope.studies.replaying import compare
from nicscope.studies.sizing.merit import Point, best_within, staircase
from nicscope.studies.sizing.shapes import first_policies, policies, replacements, shapes

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from nicscope.studies.replaying import Subject
    from nicscope.studies.sizing.passes import Passes
    from nicscope.studies.sizing.question import Question
    from nicscope.studies.sizing.shapes import Room, Setting
    from nicscope.traces.reader import Trace

    Search = Generator[list[Setting], None, None]

# Assumed: what replay keeps per page of a node for one design, at most, and what it may take.
BYTES_PER_PAGE = 64
MOST_BYTES = 1 << 30
MOST_AT_ONCE = 64  # designs
MOST_WORKERS = 8  # threads; each reads the trace by itself


class Family:
    """A scheme: where the search begins, and all that was replayed so far."""

    def __init__(self, subject: Subject, room: Room, question: Question) -> None:
        self.subject = subject
        self.points: dict[Setting, Point] = {}
        self._room = room
        self._question = question

    def plainly(self, settings: Setting) -> Setting:
        """``settings`` without those that the family's first design has anyway, in one order."""
        given = dict(settings)
        before = self.subject.design.to_json()
        return tuple(
            (key, given[key])
            for key in USES[self.subject.design.scheme]
            if key in given and given[key] != str(before[key])
        )

    @property
    def fitting(self) -> list[Point]:
        """What was replayed and pins no more than it may."""
        most = self._question.pin_bytes
        return [p for p in self.points.values() if most is None or p.pinned_bytes <= most]

    @property
    def steps(self) -> list[Point]:
        """The best for each size of NIC memory, by ascending memory."""
        return staircase(self.fitting)

    def rounds(self) -> Search:
        """The designs of each round, which are replayed before the next is asked for."""
        scheme = self.subject.design.scheme
        every = shapes(scheme, self._room)
        yield _crossed(every, first_policies(scheme, self._room))
        yield _crossed(self._anchors(), policies(scheme, self._room))
        choices = replacements(scheme, self._room)
        yield [_merged(dict(a.settings), choice) for a in self._winners() for choice in choices]
        promising = [_only_shape(step.settings) for step in self.steps]
        won = [_only_policy(point.settings) for point in self._winners()]
        yield _crossed(_unique(promising), _unique(won))

    def _winners(self) -> list[Point]:
        """The best of each budget, and the cheapest of all; where a target is met, that too."""
        fitting = self.fitting
        if not fitting:
            return []
        sizes = [*self._room.budgets, max(point.nic_bytes for point in fitting)]
        found = [best_within(fitting, size) for size in sizes]
        target = self._question.target_us
        if target is not None:
            found += _around(self.steps, target)
        return list({point.settings: point for point in found if point is not None}.values())

    def _anchors(self) -> list[Setting]:
        return _unique([_only_shape(point.settings) for point in self._winners()])


def _around(steps: Sequence[Point], target: float) -> list[Point]:
    """The smallest step that meets ``target``, and the two before it."""
    meeting = next((place for place, step in enumerate(steps) if step.value <= target), len(steps))
    return list(steps[max(meeting - 2, 0) : meeting + 1])


_SHAPE = ("area_bytes", "entries", "ways", "line", "victim_entries", "high_water")


def _only_shape(settings: Setting) -> Setting:
    return tuple(pair for pair in settings if pair[0] in _SHAPE)


def _only_policy(settings: Setting) -> Setting:
    return tuple(pair for pair in settings if pair[0] not in _SHAPE)


def _merged(settings: dict[str, str], more: Setting) -> Setting:
    return tuple((settings | dict(more)).items())


def _crossed(some: Iterable[Setting], others: Iterable[Setting]) -> list[Setting]:
    others = list(others)
    return [_merged(dict(one), other) for one in some for other in others]


def _unique(settings: Iterable[Setting]) -> list[Setting]:
    return list(dict.fromkeys(settings))


def explore(
    trace: Trace,
    subjects: Sequence[Subject],
    room: Room,
    question: Question,
    passes: Passes,
    check: Callable[[list[Family]], None],
) -> list[Family]:
    """Every family of ``subjects``, searched; ``passes`` hears how far that is.

    ``check`` may end the search after the first round, which has all shapes.  Errors: its own,
    and ``TraceError`` at the first row that the schema does not allow.
    """
    found = [Family(subject, room, question) for subject in subjects]
    searches = [family.rounds() for family in found]
    most = MOST_BYTES // (BYTES_PER_PAGE * max(room.extent.node_pages, 1))
    at_once = min(max(most, 4), MOST_AT_ONCE)
    for number in count():
        if number == 1:
            check(found)
        asked = [next(search, None) for search in searches]
        if all(settings is None for settings in asked):
            break
        wanted = [
            (family, one)
            for family, settings in zip(found, asked, strict=True)
            for one in _unique(family.plainly(settings) for settings in settings or [])
            if one not in family.points
        ]
        passes.expect(trace, len(wanted))
        workers = min(os.cpu_count() or 1, MOST_WORKERS)
        size = min(max(at_once // workers, 1), max(-(-len(wanted) // workers), 1))
        # Neighbours take about as long as each other: each pass gets some of all.
        parts = -(-len(wanted) // size)
        shares = [wanted[part::parts] for part in range(parts)]
        _replay_all(trace, shares, question, passes, workers)
    return found


def _replay_all(
    trace: Trace,
    shares: Sequence[Sequence[tuple[Family, Setting]]],
    question: Question,
    passes: Passes,
    workers: int,
) -> None:
    """Replay each of ``shares`` in a pass of its own; kernels leave other threads the interpreter.

    What comes of it does not depend on how many ``workers`` there are.
    """
    with ThreadPoolExecutor(workers) as pool:
        try:
            found = list(pool.map(lambda share: _replay(trace, share, question, passes), shares))
        except BaseException:
            passes.stop()
            pool.shutdown(cancel_futures=True)
            raise
    for share, points in zip(shares, found, strict=True):
        for (family, one), point in zip(share, points, strict=True):
            family.points[one] = point


def _replay(
    trace: Trace,
    wanted: Sequence[tuple[Family, Setting]],
    question: Question,
    passes: Passes,
) -> list[Point]:
    subjects = [
        family.subject._replace(
            design=with_settings(family.subject.design, [f"{key}={text}" for key, text in one])
        )
        for family, one in wanted
    ]
    replayed = compare(trace, subjects, kinds=False, watch=passes.of(len(subjects)))
    by_cost = question.platform is not None
    return [
        Point(one, priced, by_cost)
        for (_, one), priced in zip(wanted, replayed.priced, strict=True)
    ]
