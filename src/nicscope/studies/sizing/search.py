"""Looking for the best designs, all families side by side.

Rounds: every shape with the first policies; every policy on the best shapes within each budget;
what to unpin, where that matters; the policies that won on every shape that may be best for some
size of memory; and a replay of what is told that was known without one (``known``).  Of a long
trace each round looks at a sample first (``sampling``), and the best of each kind there are
replayed in full.  What is chosen is the best of what was counted; nothing is estimated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nicscope.config.design import with_settings
from nicscope.config.scheme import USES
from nicscope.studies.sizing.merit import Point, at_shape, best_within, grid_of, staircase
from nicscope.studies.sizing.result import pick
from nicscope.studies.sizing.shapes import (
    cache_bytes,
    first_policies,
    known_policies,
    policies,
    replacements,
    shapes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from nicscope.config.design import Design
    from nicscope.studies.replaying import Priced, Subject
    from nicscope.studies.sizing.counting import Counter
    from nicscope.studies.sizing.question import Question
    from nicscope.studies.sizing.shapes import Room, Setting

    Search = Generator["Ask", None, None]

_SHAPE = ("area_bytes", "entries", "ways", "line", "victim_entries", "high_water")
_POLICY = ("pin_limit", "prefetch", "prepin", "replacement")
_CACHE = ("entries", "ways")  # of a shape: what grids tell
# What a sample decides for each size: it says little of how much must be held, or pinned.
_DECIDED = ("ways", "victim_entries")
POLICIES_KEPT = 2  # assumed: a sample may take the second best for the best
SHAPED = 2  # of what a search asks for: on the sample and in full


class Ask(NamedTuple):
    """Designs to be counted, on the whole trace or on its sample."""

    settings: list[Setting]
    sampled: bool = False


class Family:
    """A scheme: where the search begins, and all that was counted so far."""

    def __init__(self, subject: Subject, room: Room, question: Question, *, long: bool) -> None:
        self.subject = subject
        self.counted: dict[Setting, Priced] = {}
        self.replayed: set[Setting] = set()  # of what was counted; the rest is known without
        self.sampled: dict[Setting, Priced] = {}
        self._room = room
        self._question = question
        self._is_long = long

    def design(self, settings: Setting) -> Design:
        """The family's first design with ``settings``."""
        return with_settings(self.subject.design, [f"{key}={text}" for key, text in settings])

    def note(self, ask: Ask, found: Iterable[Priced]) -> None:
        """Keep what was counted of ``ask``."""
        kept = self.sampled if ask.sampled else self.counted
        kept.update(zip(ask.settings, found, strict=True))
        if not ask.sampled:
            self.replayed.update(ask.settings)

    @property
    def by_cost(self) -> bool:
        """Whether designs are ranked by cost: all that happened in any of them has a price."""
        every = (*self.counted.values(), *self.sampled.values())
        priced = self._question.platform is not None
        return priced and not any(one.cost.is_lower_bound for one in every)

    @property
    def fitting(self) -> list[Point]:
        """What was counted and pins no more than it may."""
        most, by_cost = self._question.pin_bytes, self.by_cost
        points = [Point(one, priced, by_cost) for one, priced in self.counted.items()]
        return [point for point in points if most is None or point.pinned_bytes <= most]

    @property
    def steps(self) -> list[Point]:
        """The best for each size of NIC memory, by ascending memory."""
        return staircase(self.fitting)

    def rounds(self) -> Search:
        """What to count, each before the next is asked for: in turns on the sample and in full."""
        scheme, room = self.subject.design.scheme, self._room
        every = _crossed(shapes(scheme, room), first_policies(scheme, room))
        known = self._known(_crossed(shapes(scheme, room), known_policies(scheme, room)))
        derived = {one for _, others in known for one in others}
        others = [one for one in map(self._plainly, every) if one not in derived]
        bases = [base for base, _ in known]
        yield from self._narrowed(others, _DECIDED, 1, also=bases)
        self._derive(known)
        anchored = _crossed(self._anchors(), policies(scheme, room))
        yield from self._narrowed(anchored, ("prefetch", "prepin"), POLICIES_KEPT)
        choices = replacements(scheme, room)
        unpinning = [_merged(dict(a.settings), one) for a in self._winners() for one in choices]
        yield from self._narrowed(unpinning, ("replacement",), POLICIES_KEPT)
        promising = _unique([_only_shape(step.settings) for step in self.steps])
        won = _unique([_only_policy(point.settings) for point in self._winners()])
        yield from self._narrowed(_crossed(promising, won), _POLICY, 1)
        told = [point.settings for point in pick(self.steps, self._question).points()]
        yield from self._narrowed([], (), 1, also=told)

    def _narrowed(
        self,
        settings: Iterable[Setting],
        free: Sequence[str],
        keep: int,
        also: Sequence[Setting] = (),
    ) -> Search:
        """Ask for ``settings`` that are not counted, of a long trace for the best on its sample.

        These are the ``keep`` best of those that differ in nothing but the settings ``free``.
        ``also`` is asked for unless it was replayed.
        """
        left = [one for one in _unique(map(self._plainly, settings)) if one not in self.counted]
        groups: dict[Setting, list[Setting]] = {}
        for one in left:
            groups.setdefault(tuple(p for p in one if p[0] not in free), []).append(one)
        if self._is_long:
            large = [group for group in groups.values() if len(group) > keep]
            yield Ask([one for group in large for one in group], sampled=True)
            for group in large:
                group.sort(key=lambda one: Point(one, self.sampled[one], self.by_cost).rank)
                del group[keep:]
        else:
            yield Ask([], sampled=True)
        chosen = [one for group in groups.values() for one in group]
        yield Ask([one for one in _unique([*chosen, *also]) if one not in self.replayed])

    def _known(self, settings: Iterable[Setting]) -> list[tuple[Setting, list[Setting]]]:
        """Those of ``settings`` that follow from others: each to be replayed, with its followers.

        It is the one that misses least within the budget, for that is likely to be told.
        """
        groups: dict[Setting, list[Setting]] = {}
        for one in _unique(map(self._plainly, settings)):
            groups.setdefault(tuple(p for p in one if p[0] not in _CACHE), []).append(one)
        found = []
        for group in groups.values():
            sized = {}
            for one in group:
                design = self.design(one)
                grid = grid_of(design, self._room)
                shape = (design.entries or 1, design.ways or 1)
                misses = None if grid is None else grid.misses_of(*shape)
                if misses is not None:
                    taken = cache_bytes(*shape, design.line or 1)
                    sized[one] = (taken > self._question.nic_bytes, misses, taken, one)
            if sized:
                base = min(sized, key=sized.__getitem__)
                found.append((base, list(sized)))
        return found

    def _derive(self, known: Iterable[tuple[Setting, list[Setting]]]) -> None:
        for base, others in known:
            for one in others:
                design = self.design(one)
                grid = grid_of(design, self._room)
                assert grid is not None
                found = at_shape(self.counted[base], design, grid, self.subject.platform)
                if found is not None and one not in self.replayed:
                    self.counted[one] = found

    def _plainly(self, settings: Setting) -> Setting:
        """``settings`` without those that the family's first design has anyway, in one order."""
        given = dict(settings)
        before = self.subject.design.to_json()
        return tuple(
            (key, given[key])
            for key in USES[self.subject.design.scheme]
            if key in given and given[key] != str(before[key])
        )

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
    subjects: Sequence[Subject],
    room: Room,
    question: Question,
    counter: Counter,
    check: Callable[[list[Family]], None],
) -> list[Family]:
    """Every family of ``subjects``, searched; ``counter`` replays.

    ``check`` may end the search after the first round, which has all shapes.  Errors: its own,
    and ``TraceError`` at the first row that the schema does not allow.
    """
    found = [Family(subject, room, question, long=counter.has_sample) for subject in subjects]
    searches = [family.rounds() for family in found]
    asked = [next(search, None) for search in searches]
    rounds = 0
    while any(asked):
        counter.count([(one, ask) for one, ask in zip(found, asked, strict=True) if ask])
        asked = [next(search, None) for search in searches]
        rounds += 1
        if rounds == SHAPED:
            check(found)
    return found
