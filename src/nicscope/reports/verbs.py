"""Costs of verbs programs, and the outcomes of their tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.reports.printing import Rows, heading, rows_of
from nicscope.reports.result import Report, tidy
from nicscope.reports.wording import byte_size, in_words, significant, whole
from nicscope.studies.verbs_programs import OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nicscope.reports.printing import Printed
    from nicscope.studies.verbs_programs import TestOutcome, VerbsRun, VerbsRuns

COLUMNS = {
    "design": "string",
    "node": "int64",
    "messages_out": "int64",
    "bytes_out": "int64",
    "elapsed_us": "float64",
    "lookups": "int64",
    "ni_misses": "int64",
    "pins": "int64",
    "unpins": "int64",
    "tests_passed": "int64",
    "tests_skipped": "int64",
    "tests_failed": "int64",
}


COUNTER_COLUMNS = {
    "design": "string",
    "node": "int64",
    "folder": "string",
    "counter": "string",
    "value": "int64",
}


class ShownVerbs(Report):
    """A verbs program on one design or several."""

    found: VerbsRuns
    topic = "verbs"

    def summary(self) -> list[str]:
        """The outcomes of the tests, and the cost of the traffic."""
        told = []
        first = self.found.runs[0]
        if first.tests:
            passed, skipped, failed = (first.count(outcome) for outcome in OUTCOMES)
            told.append(
                f"{in_words(len(first.tests), 'test')}: {whole(passed)} passed, "
                f"{whole(skipped)} skipped, {whole(failed)} failed."
            )
        told += [
            f"{in_words(run.messages_out, 'message')} took {_us(run)} us of virtual time on "
            f"{_on(self.found, run)}, where {_missed(run)} of "
            f"{in_words(run.lookups, 'lookup')} missed."
            for run in self.found.runs
            if run.messages_out
        ]
        return told or ["No message went out."]

    def parts(self) -> Iterator[Printed]:
        """What each run has cost, and its tests by what they came to."""
        command = " ".join([self.found.program, *self.found.arguments])
        yield heading(command)
        yield run_rows(self.found)
        if self.found.counters():
            yield counter_rows(self.found)
        tests = [test for run in self.found.runs[:1] for test in run.tests]
        if tests:
            yield outcome_rows(tests)
        if any(test.outcome != OUTCOMES[0] for test in tests):
            yield reason_rows(tests)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each run, one for each counter of each, and one for each test."""
        yield (
            "runs",
            tidy(
                COLUMNS,
                (
                    (
                        *(getattr(run, name) for name in COLUMNS if hasattr(run, name)),
                        *(run.count(outcome) for outcome in OUTCOMES),
                    )
                    for run in self.found.runs
                ),
            ),
        )
        counted = (
            (run.design, run.node, folder, name, value)
            for run, folder, name, value in self.found.counted()
        )
        yield "counters", tidy(COUNTER_COLUMNS, counted)
        kinds = dict.fromkeys(("design", "test", "outcome", "reason"), "string")
        rows = (
            (run.design, test.test, test.outcome, test.reason)
            for run in self.found.runs
            for test in run.tests
        )
        yield "tests", tidy(kinds, rows)


def _on(found: VerbsRuns, run: VerbsRun) -> str:
    return f"node {run.node} of {run.design}" if found.has_nodes else run.design


def _us(run: VerbsRun) -> str:
    return significant(run.elapsed_us)


def _missed(run: VerbsRun) -> str:
    return f"{run.missed_percent:.1f} %"


def run_rows(found: VerbsRuns) -> Rows:
    """A row for each run."""
    return rows_of(
        "By design",
        found.runs,
        {
            "design": lambda run: run.design,
            **({"node": lambda run: str(run.node)} if found.has_nodes else {}),
            "messages": lambda run: whole(run.messages_out),
            "payload": lambda run: byte_size(run.bytes_out),
            "us": _us,
            "lookups": lambda run: whole(run.lookups),
            "missed": _missed,
            "misses": lambda run: whole(run.ni_misses),
            "pins": lambda run: whole(run.pins),
            "unpins": lambda run: whole(run.unpins),
        },
        words=("design",),
        least=("unpins", "payload"),
    )


def counter_rows(found: VerbsRuns) -> Rows:
    """Counters by Linux's names, a column for each device; those that are 0 everywhere left out."""
    several, meanings = len({run.design for run in found.runs}) > 1, found.counters()

    def heading(run: VerbsRun) -> str:
        node = f"node {run.node}" if found.has_nodes else "counted"
        return " ".join([run.design] * several + [node] * (found.has_nodes or not several))

    def value(run: VerbsRun) -> Callable[[str], str]:
        return lambda name: whole(run.counters[name])

    return rows_of(
        "Counters that are not 0",
        meanings,
        {
            "counter": str,
            **{heading(run): value(run) for run in found.runs},
            "meaning": lambda name: meanings[name],
        },
        words=("counter", "meaning"),
        least=("meaning",),
    )


def outcome_rows(tests: list[TestOutcome]) -> Rows:
    """The number of tests by outcome."""
    counts = [(outcome, sum(t.outcome == outcome for t in tests)) for outcome in OUTCOMES]
    return rows_of(
        "Tests",
        [("all", len(tests)), *counts],
        {"outcome": lambda row: row[0], "tests": lambda row: whole(row[1])},
        words=("outcome",),
    )


def reason_rows(tests: list[TestOutcome]) -> Rows:
    """Why tests did not pass: skips together by their reason, failures one by one."""
    failed = OUTCOMES[-1]
    counted: dict[tuple[str, str], int] = {}
    for test in tests:
        if test.outcome != OUTCOMES[0]:
            key = (test.outcome, test.reason)
            if test.outcome == failed:
                key = (failed, f"{test.test}: {test.reason}")
            counted[key] = counted.get(key, 0) + 1
    return rows_of(
        "Not passed",
        sorted(counted.items()),
        {
            "outcome": lambda row: row[0][0],
            "tests": lambda row: whole(row[1]),
            "reason": lambda row: row[0][1],
        },
        words=("outcome", "reason"),
    )
