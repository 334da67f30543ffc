"""What atomic operations may have found, slowly: some order in which each came alone."""

from __future__ import annotations

from typing import NamedTuple

WORDS = 2**64


class Exchange(NamedTuple):
    """One operation on a word, and what it said that it found; all numbers from 0 to 2**64 - 1."""

    kind: str  # "add" or "swap"
    operand: int  # what is added, or compared with
    swap: int
    found: int


def changed(word: int, one: Exchange) -> int:
    """What the word is after it."""
    if one.kind == "add":
        return (word + one.operand) % WORDS
    return one.swap if word == one.operand else word


def can_follow(word: int, last: int, programs: tuple[tuple[Exchange, ...], ...]) -> bool:
    """Whether the operations of all programs lead from ``word`` to ``last``.

    Each finds what those before it have left, and those of one program come in its order.
    """
    seen = set()

    def goes(word: int, places: tuple[int, ...]) -> bool:
        if (word, places) in seen:
            return False
        seen.add((word, places))
        done = all(place == len(one) for place, one in zip(places, programs, strict=True))
        if done:
            return word == last
        for number, (place, program) in enumerate(zip(places, programs, strict=True)):
            if place < len(program) and program[place].found == word:
                there = (*places[:number], place + 1, *places[number + 1 :])
                if goes(changed(word, program[place]), there):
                    return True
        return False

    return goes(word, (0,) * len(programs))
