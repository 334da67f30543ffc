"""What a program's unit tests have come to, as the standard library counts them."""

from __future__ import annotations

import contextlib
import unittest
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

PASSED, SKIPPED, FAILED = "passed", "skipped", "failed"


class TestOutcome(msgspec.Struct, frozen=True):
    """A test, what it came to, and why if it did not pass."""

    test: str
    outcome: str
    reason: str = ""


@contextlib.contextmanager
def outcomes_noted() -> Iterator[list[TestOutcome]]:
    """Within the block, what each test comes to is added to the list."""
    found: list[TestOutcome] = []
    result: Any = unittest.TestResult
    kept = {name: getattr(result, name) for name in _NOTED}

    def noting(name: str, outcome: str) -> Any:
        def note(self: Any, test: Any, *told: Any) -> None:
            reason = _reason(told[-1]) if told else ""
            found.append(TestOutcome(test.id(), outcome, reason))
            kept[name](self, test, *told)

        return note

    for name, outcome in _NOTED.items():
        setattr(result, name, noting(name, outcome))
    try:
        yield found
    finally:
        for name, method in kept.items():
            setattr(result, name, method)


_NOTED = {
    "addSuccess": PASSED,
    "addExpectedFailure": PASSED,
    "addSkip": SKIPPED,
    "addFailure": FAILED,
    "addError": FAILED,
    "addUnexpectedSuccess": FAILED,
}


def _reason(told: Any) -> str:
    """A skip's reason, or an error in a line."""
    if isinstance(told, str):
        return told
    kind, error, _ = told
    lines = str(error).splitlines() or [""]
    return f"{kind.__name__}: {lines[0]}"
