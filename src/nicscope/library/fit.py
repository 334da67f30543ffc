"""``nicscope fit``: which caches explain what a NIC has counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from nicscope.errors import StudyError
from nicscope.inputs import read_whole
from nicscope.library.command import Option, Text, as_given, command, span
from nicscope.library.progress import progress
from nicscope.library.traces import all_opened, words_of

if TYPE_CHECKING:
    from pathlib import Path

    from nicscope.library.traces import TraceLike
    from nicscope.reports.fit import ShownFit

MOST_FILE = 1 << 20  # bytes of counters


@command(
    "nicscope fit counters.json --trace mine.parquet",
    "nicscope fit counters.json --trace mine.parquet --tolerance 0.05 --json",
    out="Folder for results.json, caches.parquet and a figure.",
)
def fit(
    repeat: list[str],
    /,
    counters: Annotated[
        str | Path | dict[str, Any] | list[dict[str, Any]],
        Option(
            "COUNTERS",
            'A JSON file of hits and misses: {"hits": 900, "misses": 100}, or a list of '
            'such, each with its "page_size".',
            read=as_given,
            is_argument=True,
        ),
    ],
    trace: Annotated[
        TraceLike,
        Option(
            "TRACE",
            "The traffic that was counted.",
            offers="traces",
            read=as_given,
            words=words_of,
        ),
    ],
    *,
    tolerance: Annotated[
        float, Option("SHARE", "By which counted miss ratios may be off, beside chance.")
    ] = 0.01,
    entries: Annotated[
        Text,
        Option(
            "LOW..HIGH",
            "Entries that a cache may have; default 1..65536 with sets.",
            read=span,
        ),
    ] = None,
    skip: Annotated[int, Option("N", "Requests that warm the cache up and were not counted.")] = 0,
    line: Annotated[
        Text, Option("N,...", "Entries that the NIC fetches together; 64 bytes are 8.")
    ] = "1,8",
) -> ShownFit:
    """Find cache sizes and ways that explain a NIC's hits and misses over known traffic."""
    from nicscope.reports.fit import ShownFit
    from nicscope.studies.fitting import fit as explain
    from nicscope.studies.fitting import read_counters

    is_given = isinstance(counters, dict | list)
    called = "counters" if is_given else str(counters)
    plain = counters if is_given else _read(called)
    read_counters(plain, called)
    [(name, opened)] = all_opened(trace)
    with progress("fitting", "rows") as watch:
        return ShownFit(
            explain(
                name,
                opened,
                called,
                plain,
                tolerance=tolerance,
                entries=entries,
                skip=skip,
                line=line,
                command=repeat,
                watch=watch,
            )
        )


def _read(path: str) -> Any:
    """What a JSON file holds.  Errors: ``StudyError`` naming it."""
    import json

    content = read_whole(path, MOST_FILE, StudyError)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as problem:
        raise StudyError(f"{path}: is not JSON: {problem}") from problem
