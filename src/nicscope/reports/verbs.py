"""Verbs: what programs cost and their tests' outcomes, and bandwidth and latency as of perftest."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar

from nicscope.reports.printing import Printed, Rows, heading, remark, rows_of
from nicscope.reports.result import Column, Report, table_of, tidy
from nicscope.reports.wording import byte_size, in_words, significant, whole
from nicscope.studies.latency import Part
from nicscope.studies.verbs_programs import OUTCOMES, TestOutcome, VerbsRun, VerbsRuns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from nicscope.studies.verbs_live import LiveRuns
    from nicscope.studies.verbs_measures import (
        AllLatencies,
        Bandwidth,
        Bandwidths,
        Latencies,
        Measured,
    )

RUN_COLUMNS = {
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
        if not self.found.runs:
            return ["No program has opened the device."]
        first = self.found.runs[0]
        if first.tests:
            passed, skipped, failed = (first.count(outcome) for outcome in OUTCOMES)
            told.append(
                f"{in_words(len(first.tests), 'test')}: {whole(passed)} passed, "
                f"{whole(skipped)} skipped, {whole(failed)} failed."
            )
        told += [
            f"{in_words(run.messages_out, 'message')} took {_elapsed(run)} us of virtual time on "
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
                RUN_COLUMNS,
                (
                    (
                        *(getattr(run, name) for name in RUN_COLUMNS if hasattr(run, name)),
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


class ShownLive(ShownVerbs):
    """Compiled programs on one machine between real processes."""

    found: LiveRuns

    def parts(self) -> Iterator[Printed]:
        """What each NIC did, by which engine virtual time was taken, and the counters."""
        yield from super().parts()
        if self.found.seen is not None:
            yield busy_rows(self.found)


def busy_rows(found: LiveRuns) -> Rows:
    """A row for each process's node: how long each engine was busy, and packets sent again."""
    assert found.seen is not None
    [report] = found.seen.runs
    used = {run.node for run in found.runs}
    engines = {"CPU": "cpu_share", "NIC": "nic_share", "bus": "bus_share", "link": "link_share"}

    def busy(name: str) -> Callable[[Any], str]:
        return lambda node: significant((getattr(node, name) or 0.0) * report.elapsed_us)

    return rows_of(
        "Busy, in us of virtual time",
        [node for node in report.nodes if node.node in used],
        {
            "node": lambda node: str(node.node),
            **{heading: busy(name) for heading, name in engines.items()},
            "misses": lambda node: significant(node.miss_us or 0.0),
            "again": lambda node: whole(node.sent.again or 0),
        },
    )


def _on(found: VerbsRuns, run: VerbsRun) -> str:
    return f"node {run.node} of {run.design}" if found.has_nodes else run.design


def _elapsed(run: VerbsRun) -> str:
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
            "us": _elapsed,
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


NS_PER_US = 1000
ENGINES = {"cpu": "CPU", "nic": "NIC", "bus": "bus", "link": "link"}
BILL = ("lookups", "ni_misses", "pins", "unpins", "interrupts")
# The parts of ``nicscope latency``, some together.
PARTS: dict[str, tuple[Part, ...]] = {
    "library": (Part.LIBRARY, Part.USER_DATA, Part.COPY, Part.USER_READ),
    "pinning": (Part.PIN,),
    "sending": (Part.SEND,),
    "DMA": (
        Part.DMA_INIT,
        Part.DMA_EXEC,
        Part.DMA_INTERRUPT,
        Part.COHERENCE,
        Part.BLOCK_WAIT,
    ),
    "lookup": (Part.TRANSLATION,),
    "missing": (Part.MISS,),
    "network": (Part.NETWORK,),
    "receiving": (Part.RECEIVE,),
    "waiting": (Part.WAIT,),
}


def busy_share(one: Bandwidth | Latencies, who: str) -> float:
    """The share of the time that an engine is busy."""
    return one.costs.busy_percent(who) / 100


def in_us(one: Latencies, name: str) -> float:
    """One of its times, in microseconds."""
    ns: float = getattr(one, name)
    return ns / NS_PER_US


# Columns of both tables: which row it is, and what the engines and translations did meanwhile.
WHICH: dict[str, Column] = {
    "design": ("string", "design"),
    "platform": ("string", "platform"),
    "payload_bytes": ("int64", "payload_bytes"),
    "iterations": ("int64", "iterations"),
}
MEANWHILE: dict[str, Column] = {
    **{f"{who}_share": ("double", partial(busy_share, who=who)) for who in ENGINES},
    **{name: ("int64", f"costs.{name}") for name in BILL},
}
_TIMES = {
    "t_min_us": "least",
    "t_max_us": "most",
    "t_typical_us": "typical",
    "t_avg_us": "average",
    "t_stdev_us": "deviation",
    "t_99_us": "p99",
    "t_99_9_us": "p99_9",
}
TIMES: dict[str, Column] = {
    column: ("double", partial(in_us, name=name)) for column, name in _TIMES.items()
}
SAID = {  # in sentences, where the heading alone would not do
    "library": "the library's",
    "sending": "the NIC's for what goes",
    "lookup": "the NIC's lookups",
    "missing": "waiting for misses",
    "receiving": "the NIC's for what comes",
}


class ShownBandwidths(Report):
    """Bandwidth by design and size."""

    found: Bandwidths
    topic = "verbs"
    drawn: ClassVar = {"bandwidth": "messages.draw_bandwidths"}

    def summary(self) -> list[str]:
        """What each design reaches, and who is busiest then."""
        told = []
        for design, rows in _by_design(self.found.rows):
            best = max(rows, key=lambda one: one.average_mib_s)
            who = max(ENGINES, key=best.costs.busy_percent)
            told.append(
                f"On {design} messages of {_bytes(best)} bytes reach {best.average_mib_s:.2f} "
                f"MiB/s, when the {ENGINES[who]} is busy {_busy(best, who)} of the time."
            )
        return told

    def parts(self) -> Iterator[Printed]:
        """Perftest's columns with the busy engines, design by design; the bill; what it means."""
        yield from _headed(self.found, f"bandwidth, {self.found.depth:,} outstanding")
        for design, rows in _by_design(self.found.rows):
            yield bandwidth_rows(design, rows)
            yield ""
        yield bill_rows(self.found.rows)
        yield _note(self.found)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each design and size."""
        rates = dict.fromkeys(("peak_mib_s", "average_mib_s", "rate_mpps"), "double")
        columns = {name: (kind, name) for name, kind in rates.items()}
        yield "bandwidth", table_of(self.found.rows, WHICH | columns | MEANWHILE)


class ShownVerbsLatencies(Report):
    """Latencies by design and size."""

    found: AllLatencies
    topic = "verbs"
    drawn: ClassVar = {"latency": "messages.draw_latencies"}

    def summary(self) -> list[str]:
        """What the smallest message takes on each design, and where most of that goes."""
        told = []
        for design, rows in _by_design(self.found.rows):
            least = min(rows, key=lambda one: one.payload_bytes)
            times = {name: least.us(*parts) for name, parts in PARTS.items()}
            times["propagation"] = least.propagation_ns / NS_PER_US
            most = max(times, key=lambda name: times[name])
            told.append(
                f"On {design} an operation {self.found.operation!r} of {_bytes(least)} bytes takes "
                f"{_us(least.typical)} us, typically; most of the mean is "
                f"{SAID.get(most, most)}, {times[most]:,.2f} us."
            )
        return told

    def parts(self) -> Iterator[Printed]:
        """Perftest's columns and where time went, design by design; the bill; what it means."""
        yield from _headed(self.found, "latency, one message at a time")
        for design, rows in _by_design(self.found.rows):
            yield latency_rows(design, rows)
            yield ""
            yield part_rows(rows)
            yield ""
        yield bill_rows(self.found.rows)
        yield _note(self.found)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each design and size, and one for each part of each."""
        yield "latency", table_of(self.found.rows, WHICH | TIMES | MEANWHILE)
        kinds = dict.fromkeys(("design", "platform"), "string") | {
            "payload_bytes": "int64",
            "part": "string",
            "part_ns": "double",
        }
        parts = (
            (one.design, one.platform, one.payload_bytes, part, ns)
            for one in self.found.rows
            for part, ns in [*one.parts_ns.items(), ("propagation", one.propagation_ns)]
            if ns or part != "propagation"
        )
        yield "parts", tidy(kinds, parts)


def _by_design(rows: Iterable[Any]) -> Iterator[tuple[str, list[Any]]]:
    for design, several in groupby(rows, key=lambda one: one.design):
        yield design, list(several)


def _headed(found: Measured, what: str) -> Iterator[Printed]:
    pairs = "1 queue pair" if found.queue_pairs == 1 else f"{found.queue_pairs:,} queue pairs"
    inline = f", inline up to {byte_size(found.inline_bytes)}" if found.inline_bytes else ""
    delay = f", {found.delay} each way" if found.has_delay else ""
    bursts = ", in bursts" if found.bursts else ""
    yield heading(f"RC {found.operation} {what}: {pairs}{inline}{delay}{bursts}")
    yield ""


def _note(found: Measured) -> Printed:
    classes = "; ".join(
        f"{platform}: " + ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        for platform, counts in found.evidence.items()
    )
    return remark(
        "Virtual time, between two nodes; what was busy is the sender's.  "
        f"Costs by evidence: {classes}.  Differences say more than any one number."
    )


def _bytes(one: Bandwidth | Latencies) -> str:
    return whole(one.payload_bytes)


def _us(ns: float) -> str:
    return f"{ns / NS_PER_US:,.2f}"


def _busy(one: Bandwidth | Latencies, who: str) -> str:
    return f"{one.costs.busy_percent(who):.1f} %"


def bandwidth_rows(design: str, rows: list[Bandwidth]) -> Rows:
    """Perftest's columns, and the utilization of engines meanwhile."""
    return rows_of(
        f"{design} on {rows[0].platform}",
        rows,
        {
            "bytes": _bytes,
            "iterations": lambda one: whole(one.iterations),
            "peak MiB/s": lambda one: f"{one.peak_mib_s:,.2f}",
            "average MiB/s": lambda one: f"{one.average_mib_s:,.2f}",
            "Mpps": lambda one: f"{one.rate_mpps:.4f}",
            **{title: partial(_busy, who=who) for who, title in ENGINES.items()},
        },
        least=("link", "CPU"),
    )


def latency_rows(design: str, rows: list[Latencies]) -> Rows:
    """Perftest's columns, in us."""
    return rows_of(
        f"{design} on {rows[0].platform}, us",
        rows,
        {
            "bytes": _bytes,
            "iterations": lambda one: whole(one.iterations),
            "t_min": lambda one: _us(one.least),
            "t_max": lambda one: _us(one.most),
            "t_typical": lambda one: _us(one.typical),
            "t_avg": lambda one: _us(one.average),
            "t_stdev": lambda one: _us(one.deviation),
            "99%": lambda one: _us(one.p99),
            "99.9%": lambda one: _us(one.p99_9),
        },
        least=("iterations",),
    )


def part_rows(rows: list[Latencies]) -> Rows:
    """The breakdown of the mean message's time, in us."""
    shown = {name: parts for name, parts in PARTS.items() if any(one.us(*parts) for one in rows)}
    columns: dict[str, Callable[[Latencies], str]] = {"bytes": _bytes}
    columns |= {name: partial(_in, parts=each) for name, each in shown.items()}
    if any(one.propagation_ns for one in rows):
        columns["propagation"] = lambda one: _us(one.propagation_ns)
    return rows_of(
        "Where the us of the mean message went",
        rows,
        columns,
        least=("waiting",),
    )


def _in(one: Latencies, parts: tuple[Part, ...]) -> str:
    return f"{one.us(*parts):,.2f}"


def bill_rows(rows: list[Any]) -> Rows:
    """The total cost of translation for each design and size; packets retransmitted, if any."""
    again = {}
    if any(one.costs.retransmitted for one in rows):
        again["retransmitted"] = lambda one: whole(one.costs.retransmitted)
    return rows_of(
        "Translations",
        rows,
        {
            "design": lambda one: one.design,
            "bytes": _bytes,
            "lookups": lambda one: whole(one.costs.lookups),
            "misses": lambda one: whole(one.costs.ni_misses),
            "missed": lambda one: f"{one.costs.missed_percent:.1f} %",
            "pins": lambda one: whole(one.costs.pins),
            "unpins": lambda one: whole(one.costs.unpins),
            "interrupts": lambda one: whole(one.costs.interrupts),
            **again,
        },
        words=("design",),
        key=2,
        grouped=True,
        least=("unpins",),
    )
