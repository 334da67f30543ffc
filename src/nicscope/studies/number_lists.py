"""Numbers as options give them: some with commas between, or LOW..HIGH, which doubles.

LOW:HIGH is the same.
"""

from __future__ import annotations

from nicscope.errors import StudyError


def numbers(option: str, text: str, most: int, other: str = "") -> list[int]:
    """The numbers from 1 to ``most`` that ``text`` names, in its order.

    ``other``: what else may be given, for messages.  Errors: ``StudyError`` naming ``option``.
    """
    ends = text.split(".." if ".." in text else ":")
    words = ends if len(ends) == 2 else text.split(",")
    for word in words:
        if not word.isdecimal() or not 1 <= int(word) <= most:
            raise StudyError(
                f"{option} must be {other}numbers from 1 to {most} or LOW..HIGH, got {text!r}"
            )
    found = [int(word) for word in words]
    return _doubled(option, *found) if len(ends) == 2 else found


def _doubled(option: str, low: int, high: int) -> list[int]:
    if low > high:
        raise StudyError(f"{option}: {low} is more than {high}; give the lower one first")
    found = []
    while low < high:
        found.append(low)
        low *= 2
    return [*found, high]
