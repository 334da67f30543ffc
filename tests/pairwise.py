"""Cases that hold every pair of values of any two parameters: far fewer than their product.

A mistake nearly always shows with one value of a parameter or with some two of two, whatever the
others are.
"""

from __future__ import annotations

from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


def pairs_of(*, possible: Callable[..., bool] | None = None, **axes: Iterable[Any]) -> list[Any]:
    """Cases, each with one value of every axis in the axes' order, that hold all pairs of values.

    All of one axis or two; of more, little more than the product of the two longest.  Where
    ``possible`` says no of a case's values, there is no such case.
    """
    values = [list(axis) for axis in axes.values()]
    cases = [
        case
        for case in product(*(range(len(axis)) for axis in values))
        if possible is None or possible(*_values(values, case))
    ]
    return [_values(values, case) for case in pairs_among(cases)]


def _values(axes: Sequence[Sequence[Any]], places: Sequence[int]) -> tuple[Any, ...]:
    return tuple(axis[place] for axis, place in zip(axes, places, strict=True))


def pairs_among(
    cases: Iterable[Any], aspects: Callable[[Any], Iterable[Any]] = lambda case: case
) -> list[Any]:
    """Those of ``cases`` that hold every pair of two aspects' values that any of ``cases`` holds.

    Greedy and always the same: the case that adds the most pairs is next, the first of several.
    """
    cases = list(cases)
    placed = [[*enumerate(aspects(case))] for case in cases]
    held = [{*case, *combinations(case, 2)} for case in placed]
    left = set().union(*held)
    chosen = []
    while left:
        best = max(range(len(cases)), key=lambda number: len(held[number] & left))
        left -= held[best]
        chosen.append(best)
    return [cases[number] for number in sorted(chosen)]


def others_marked(mark: Any, cases: Iterable[Any], chosen: Iterable[Any]) -> list[Any]:
    """All of ``cases`` for pytest; ``mark``, such as ``pytest.mark.long``, on what is not chosen.

    A test file names the mark itself: tests/suite.py looks for it there.
    """
    chosen = list(chosen)
    return [
        pytest.param(
            *(case if type(case) is tuple else (case,)), marks=() if case in chosen else mark
        )
        for case in cases
    ]


def in_turn(mark: Any, *axes: Iterable[Any]) -> list[Any]:
    """All combinations for pytest; unmarked are those of the longest axis with the others in turn.

    So every value of every axis is in an unmarked one, in no more than the longest axis has.  An
    axis may name a value twice, which then has two turns.
    """
    values = [list(axis) for axis in axes]
    longest = max(len(axis) for axis in values)
    turns = [tuple(axis[turn % len(axis)] for axis in values) for turn in range(longest)]
    return others_marked(mark, product(*map(dict.fromkeys, values)), turns)
