"""Traces of a language model's service that count tokens and name no blocks: Azure's, BurstGPT's.

A line is a request: when it arrived, the tokens that it brought and those that were generated.
Which blocks two requests share it does not say: none, or those of a prefix of a given length that
all begin with.  Times are counted from the first request.

Sources of the formats: github.com/Azure/AzurePublicDataset (2023, 2024) and
github.com/HPMLL/BurstGPT, whose failed requests have generated nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nicscope.errors import TraceError
from nicscope.traces.files import ByteSource
from nicscope.traces.importers.served import MOST_TOKENS, Served
from nicscope.traces.importers.tables import Layout, check_width, line_of, names_in, parse_block
from nicscope.traces.kv_layout import BLOCK_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nicscope.inputs import Input
    from nicscope.traces.files import Watch
    from nicscope.traces.kv_layout import KvChoices

NS_PER_S = 10**9
_SECONDS = pa.decimal128(19, 9)  # nanoseconds of them are 63 bits
_ZONE = r"(\+00:00|Z)$"


class Columns(NamedTuple):
    """How a kind of file names what is read of it."""

    time: str
    input: str
    output: str
    time_ns: Callable[[Any], Any]  # of a column of text
    a_time: str  # such as it should be
    failed: bool  # a request that has generated nothing has failed


def _of_clock(texts: Any) -> Any:
    plain = pc.replace_substring_regex(texts, _ZONE, "")
    return pc.cast(plain, pa.timestamp("ns")).cast(pa.int64())


def _of_seconds(texts: Any) -> Any:
    scale = pa.scalar(NS_PER_S, pa.decimal128(10, 0))
    return pc.multiply(pc.cast(texts, _SECONDS), scale).cast(pa.int64())


AZURE = Columns(
    "TIMESTAMP", "ContextTokens", "GeneratedTokens", _of_clock, "2023-11-16 18:15:46.68", False
)
BURSTGPT = Columns("Timestamp", "Request tokens", "Response tokens", _of_seconds, "45", True)


def columns_in(header: bytes) -> Columns | None:
    """Whose file it is that has this first line, if it is of either kind."""
    names = set(names_in(header))
    kinds = (AZURE, BURSTGPT)
    return next((one for one in kinds if {one.time, one.input, one.output} <= names), None)


class _Table(NamedTuple):
    """What is used of the lines of a file."""

    time_ns: NDArray[np.int64]
    input: NDArray[np.int64]
    output: NDArray[np.int64]
    lines: NDArray[np.int64]


def _read(
    columns: Columns, source: Input, kv: KvChoices | None, watch: Watch | None = None
) -> Served:
    parts, names = [], None
    for first, block in ByteSource(source, watch).blocks():
        rows, start = block, first
        if names is None:
            header, _, rows = block.partition(b"\n")
            names, start = _names(source.name, header, columns), first + 1
        if rows.strip():
            parts.append(_rows(source.name, start, rows, names, columns))
    if not parts:
        raise TraceError(f"{source.name}: has no line of a request below its header")
    whole = _Table(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    back = np.flatnonzero(np.diff(whole.time_ns) < 0)
    if back.size:
        line = whole.lines[back[0] + 1]
        raise TraceError(
            f"{source.name}: line {line}: {columns.time} is before that of the line before; sort "
            "the lines by time"
        )
    return _served(whole, columns, kv)


read_azure = partial(_read, AZURE)
read_burstgpt = partial(_read, BURSTGPT)


def _names(called: str, header: bytes, columns: Columns) -> list[str]:
    check_width(called, header.count(b",") + 1)
    names = names_in(header)
    for name in (columns.time, columns.input, columns.output):
        if names.count(name) != 1:
            raise TraceError(
                f"{called}: column {name!r} is there {names.count(name)} times in the header line; "
                f"it has {columns.time}, {columns.input} and {columns.output}"
            )
    return names


def _rows(name: str, start: int, rows: bytes, names: list[str], columns: Columns) -> _Table:
    numbers = (columns.input, columns.output)
    types = {each: pa.int64() if each in numbers else pa.string() for each in names}
    table = parse_block(name, start, rows, Layout(names, types)).combine_chunks()
    lines = _lines(start, rows, table.num_rows)
    counts = []
    for each in numbers:
        found = table.column(each).combine_chunks()
        tokens = np.asarray(pc.fill_null(found, -1))
        bad = np.flatnonzero((tokens < 0) | (tokens >= MOST_TOKENS))
        if bad.size:
            raise TraceError(
                f"{name}: line {lines[bad[0]]}: {each} must be tokens, got {found[bad[0]].as_py()}"
            )
        counts.append(tokens)
    texts = table.column(columns.time).combine_chunks()
    return _Table(_times(name, lines, texts, columns), counts[0], counts[1], lines)


def _lines(start: int, rows: bytes, count: int) -> NDArray[np.int64]:
    """Number of the line that holds each row; blank lines hold none."""
    if rows.count(b"\n") == count:
        return np.arange(start, start + count)
    return np.array([line_of(start, rows, row) for row in range(count)], np.int64)


def _times(name: str, lines: NDArray[np.int64], texts: Any, columns: Columns) -> NDArray[np.int64]:
    try:
        return _ns(texts, columns)
    except pa.ArrowInvalid:
        for row in range(len(texts)):
            try:
                _ns(texts.slice(row, 1), columns)
            except pa.ArrowInvalid:
                raise TraceError(
                    f"{name}: line {lines[row]}: {columns.time} is no time such as "
                    f"{columns.a_time}: {texts[row].as_py()!r}"
                ) from None
        raise


def _ns(texts: Any, columns: Columns) -> NDArray[np.int64]:
    if texts.null_count:
        raise pa.ArrowInvalid("a time is missing")
    return np.asarray(columns.time_ns(texts)).astype(np.int64)


def _served(whole: _Table, columns: Columns, kv: KvChoices | None) -> Served:
    """Requests with blocks, as ``kv`` assumes them."""
    kept = whole
    observed = {}
    if columns.failed:
        alive = whole.output > 0
        kept = _Table(*(each[alive] for each in whole))
        observed["failed_requests"] = int((~alive).sum())
    observed["input_tokens"] = int(kept.input.sum())
    observed["output_tokens"] = int(kept.output.sum())
    block = BLOCK_TOKENS if kv is None else kv.block_tokens
    prefix = 0 if kv is None else kv.prefix_tokens // block
    generated = kv is not None and kv.generated
    blocks = (kept.input + kept.output * generated) // block
    shared = np.minimum(kept.input // block, prefix)
    firsts, ids = _named(blocks, shared, prefix)
    said = "no two requests share a block"
    if prefix:
        said = f"all requests begin with the same {prefix * block:,} tokens and share nothing else"
    then = "written to the pool when a request arrives" if generated else "not kept"
    return Served(
        kept.time_ns - (kept.time_ns[0] if kept.time_ns.size else 0),
        firsts,
        ids,
        kept.lines,
        observed,
        (said, f"what is generated is {then}"),
    )


def _named(
    blocks: NDArray[np.int64], shared: NDArray[np.int64], prefix: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each request's blocks begin, and the blocks.

    Those that are ``shared`` are 0, 1, 2..., the others follow ``prefix`` and are nobody else's.
    """
    firsts = np.zeros(len(blocks) + 1, np.int64)
    np.cumsum(blocks, out=firsts[1:])
    own = prefix + np.cumsum(blocks - shared) - (blocks - shared)  # the first of each
    place = np.arange(firsts[-1]) - np.repeat(firsts[:-1], blocks)
    other = np.repeat(own - shared, blocks) + place
    return firsts, np.where(place < np.repeat(shared, blocks), place, other)
