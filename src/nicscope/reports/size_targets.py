"""The fewest entries that meet a miss target: summary, table, targets."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from nicscope.reports.printing import Rows, heading, remark, rows_of
from nicscope.reports.result import Column, Report, table_of
from nicscope.reports.wording import byte_size, in_words, per_hundred, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.reports.printing import Printed
    from nicscope.studies.size_targets import Cliff, Target, TargetReport

COLUMNS: dict[str, Column] = {
    "trace": ("string", "trace"),
    "page_size_bytes": ("int64", "page_size"),
    "lookups": ("int64", "lookups"),
    "touched_pages": ("int64", "pages"),
    "ni_misses_compulsory": ("int64", "compulsory"),
    "enough_entries": ("int64", "entries"),
    "enough_ni_misses": ("int64", "misses"),
    "steady_entries": ("int64", "steady_entries"),
    "cliff_entries": ("int64", lambda one: None if one.cliff is None else one.cliff.entries),
}
NO_CACHE = "none"
ON_THE_MACHINE = (
    "On the machine: Level 0 and Level 1 MTT Cache Miss (Neo-Host), l0_mtt_miss and l1_mtt_miss "
    "(FreeBSD), over lookups; KernelPageSize of /proc/PID/smaps for the pages there really are."
)


class ShownTargets(Report):
    """Sufficient entries for each page size."""

    found: TargetReport
    topic = "size"

    def summary(self) -> list[str]:
        """How many entries do for pages of each size, and where a cliff is."""
        told = []
        several = len(self.found.traces) > 1
        for name, some in groupby(self.found.targets, lambda target: target.trace):
            targets = list(some)
            if several:
                told.append(f"{name}:")
            told += _which(targets, _share(self.found))
            for target in targets:
                told.append(_answer(target, _share(self.found)))
                if target.cliff is not None:
                    told.append(_cliff_sentence(target.cliff, target.lookups))
        return told

    def parts(self) -> Iterator[Printed]:
        """A table: each page size of each trace."""
        skipped = self.found.question.skip
        for number, trace in enumerate(self.found.traces):
            after = f", of which {whole(skipped)} only fill the caches" if skipped else ""
            requests = in_words(trace["requests"], "request")
            if number:
                yield ""
            yield heading(f"{trace['name']}: {requests}{after}")
            yield ""
            those = [one for one in self.found.targets if one.trace == trace["name"]]
            yield target_rows(those, self.found)
            cliffs = [(one, one.cliff) for one in those if one.cliff is not None]
            if cliffs:
                yield cliff_rows(cliffs)
        yield remark(
            "Fully associative, least recently used first out, one cache on each node's NIC. From "
            "the start: all misses count; steady: first lookups of a page are left out."
        )
        yield remark(ON_THE_MACHINE)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each page size of each trace."""
        yield "targets", table_of(self.found.targets, COLUMNS)


def target_rows(targets: list[Target], found: TargetReport) -> Rows:
    """A row for each page size."""
    return rows_of(
        f"Fewest entries with which at most {_share(found)} of lookups miss, by page size",
        targets,
        {
            "pages": lambda one: byte_size(one.page_size),
            "lookups": lambda one: whole(one.lookups),
            "touched": lambda one: whole(one.pages),
            "first lookups": lambda one: per_hundred(100 * one.compulsory_share) + " %",
            "from the start": lambda one: _entries(one.entries),
            "steady": lambda one: _entries(one.steady_entries),
            "reach, steady": lambda one: (
                NO_CACHE
                if one.steady_entries is None
                else byte_size(one.steady_entries * one.page_size)
            ),
        },
        words=("pages",),
        grouped=False,
        least=("lookups", "touched"),
    )


def cliff_rows(cliffs: list[tuple[Target, Cliff]]) -> Rows:
    """A row for each page size with a sharp drop of misses."""
    return rows_of(
        "Cliffs: the doubling of a cache that buys most, in misses per 100 lookups",
        cliffs,
        {
            "pages": lambda one: byte_size(one[0].page_size),
            "entries before": lambda one: whole(one[1].entries),
            "missed before": lambda one: _of_lookups(one[1].misses, one[0].lookups),
            "with twice as many": lambda one: _of_lookups(one[1].after, one[0].lookups),
        },
        words=("pages",),
        grouped=False,
    )


def _of_lookups(count: int, lookups: int) -> str:
    return per_hundred(100 * count / lookups)


def _entries(count: int | None) -> str:
    return NO_CACHE if count is None else whole(count)


def _share(found: TargetReport) -> str:
    return f"{100 * found.question.share:g} %"


def _many(entries: int) -> str:
    return "1 entry" if entries == 1 else f"{whole(entries)} entries"


def _miss(entries: int) -> str:
    return "misses" if entries == 1 else "miss"


def _which(targets: list[Target], share: str) -> list[str]:
    """The page size that needs the fewest entries, where several were asked for."""
    enough = [one for one in targets if one.entries is not None]
    if len(targets) < 2 or not enough:
        return []
    best = min(enough, key=lambda one: (one.entries or 0, one.page_size))
    return [
        f"Pages of {byte_size(best.page_size)} need fewest: {_many(best.entries or 0)} for at most "
        f"{share} of lookups that miss."
    ]


def _answer(target: Target, share: str) -> str:
    """The sufficient entries, as a sentence."""
    page, entries, steady = byte_size(target.page_size), target.entries, target.steady_entries
    if entries is not None:
        return f"In pages of {page} {_many(entries)} {_miss(entries)} at most {share} of lookups."
    first = f"{per_hundred(100 * target.compulsory_share)} % are the first of a page"
    later = (
        "" if steady is None else f"; of all others {_many(steady)} {_miss(steady)} at most {share}"
    )
    return f"In pages of {page} no cache misses as few as {share} of lookups: {first}{later}."


def _cliff_sentence(cliff: Cliff, lookups: int) -> str:
    """The position of the drop, as a sentence."""
    before, after = (_of_lookups(count, lookups) for count in (cliff.misses, cliff.after))
    return (
        f"There is a cliff: {_many(cliff.entries)} {_miss(cliff.entries)} {before} of 100 lookups, "
        f"twice as many {after}."
    )
