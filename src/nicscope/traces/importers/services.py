"""Importers of LLM serving traces: Mooncake's with blocks, Azure's and BurstGPT's with tokens.

Their requests are those of one NIC next to a pool of KV cache blocks in host memory, whose layout
says how transfers are split.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from nicscope.errors import TraceError, one_line
from nicscope.kernel.decorators import kernel
from nicscope.traces.files import ByteSource, Watch
from nicscope.traces.imported import (
    BLOCK_TOKENS,
    PAGE_TOKENS,
    Choices,
    Imported,
    KvChoices,
    filled,
    numbered,
)
from nicscope.traces.schema import Op, TraceMetadata
from nicscope.traces.tables import Layout, check_width, line_of, names_in, parsed_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from nicscope.inputs import Input

    Reader = Callable[[Input, KvChoices | None, Watch | None], "Served"]

BASE = 1 << 40  # address of the first region
ALIGNED = 1 << 30  # bytes: regions share no page of any size
_LONGEST = (1 << 32) - 1  # bytes of a request


class Pool:
    """A pool's memory at one rank: turns block slots into the requests that transfer them."""

    def __init__(self, kv: KvChoices, used: int) -> None:
        """As large as ``kv`` says, or as ``used`` blocks need.

        Errors: ``TraceError`` if a run is longer than a request can be, or does not divide.
        """
        slots = used if kv.blocks is None else kv.blocks
        self.block_bytes = kv.token_bytes * kv.block_tokens
        is_whole = kv.layout == "block"
        regions = 1 if is_whole else kv.regions
        pages = kv.block_tokens // PAGE_TOKENS  # of a block in each region
        if is_whole:
            run, runs = self.block_bytes, 1
        else:
            run, rest = divmod(kv.token_bytes * PAGE_TOKENS, regions)
            if rest:
                raise TraceError(
                    f"{kv.token_bytes} bytes of a token do not divide by {regions} regions"
                )
            runs = regions * pages
        if kv.slice_bytes is None and run > _LONGEST:
            raise TraceError(f"a block of {run:,} bytes is too long for one request; give --slice")
        self._run = run
        self._offsets, self._lengths = _slices(run, kv.slice_bytes)
        self.requests_of_block = runs * len(self._lengths)
        self.region_bytes = slots * self.block_bytes // regions
        apart = -(-self.region_bytes // ALIGNED) * ALIGNED
        self.starts = BASE + np.arange(regions, dtype=np.int64) * apart  # of each region
        self._pages: NDArray[np.int64] | None = None  # of each slot, where regions have them
        if not is_whole:
            rng = np.random.default_rng(kv.seed)
            self._pages = rng.permutation(slots * pages).reshape(slots, pages)

    def requests(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """Address and length of each request for the blocks in ``slots``, in order of issue.

        Layer by layer a block's pages of one region come together, in the order of its tokens.
        """
        if self._pages is None:
            runs = self.starts[0] + slots * self._run
        else:
            pages = self._pages[slots]  # (blocks, pages)
            runs = self.starts[None, :, None] + pages[:, None, :] * self._run
        address = (runs.reshape(-1, 1) + self._offsets).reshape(-1)
        lengths = np.tile(self._lengths, runs.size)
        return address.astype(np.uint64), lengths


def _slices(run: int, size: int | None) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Offset and length of each piece of a run of bytes.

    What remains joins the piece before it if it is at most a quarter of one (Mooncake, transfer
    engine: 64 KiB, and a remainder of 16 KiB).
    """
    if size is None or run <= size:
        return np.zeros(1, np.int64), np.array([run], np.uint32)
    many, rest = divmod(run, size)
    lengths = [size] * many
    if rest > size // 4:
        lengths.append(rest)
    else:
        lengths[-1] += rest
    return np.arange(len(lengths), dtype=np.int64) * size, np.array(lengths, np.uint32)


NOWHERE = -1


class Placed(NamedTuple):
    """The slot of each block reference, and whether it was a hit."""

    slots: NDArray[np.int64]  # of the pool, by reference
    found: NDArray[np.int64]  # blocks at the front of each request that the pool held
    evicted: int
    used: int  # slots that were ever filled


@kernel
def place_blocks(firsts, blocks, capacity, newer, older, slot_of, slots, found):
    """Fill ``slots`` and ``found``; returns blocks evicted and slots used.

    ``firsts``: where each request's blocks begin, and their end.  By block: ``slot_of``, filled
    with ``NOWHERE``, and ``newer`` and ``older``, whose further last row closes the ring.
    """
    ends = slot_of.size  # stands between the newest and the oldest
    newer[ends] = ends
    older[ends] = ends
    used, evicted = 0, 0
    for request in range(firsts.size - 1):
        first, last = firsts[request], firsts[request + 1]
        run = first
        while run < last and slot_of[blocks[run]] != NOWHERE:
            run += 1
        found[request] = run - first
        for reference in range(first, last):
            block = blocks[reference]
            if slot_of[block] != NOWHERE:
                newer[older[block]] = newer[block]
                older[newer[block]] = older[block]
            elif used < capacity:
                slot_of[block] = used
                used += 1
            else:
                victim = newer[ends]  # the oldest
                newer[ends] = newer[victim]
                older[newer[victim]] = ends
                slot_of[block] = slot_of[victim]
                slot_of[victim] = NOWHERE
                evicted += 1
            newest = older[ends]
            newer[newest] = block
            older[block] = newest
            newer[block] = ends
            older[ends] = block
            slots[reference] = slot_of[block]
    return evicted, used


def place(firsts: NDArray[np.int64], ids: NDArray[np.int64], capacity: int | None) -> Placed:
    """Where a pool of ``capacity`` blocks, None for as many as there are, has each reference's.

    ``firsts``: shape (requests + 1,), where the references of each request begin; ``ids``: the
    block of each reference, any numbers.
    """
    distinct, blocks = np.unique(ids, return_inverse=True)
    many = distinct.size
    slots = np.empty(ids.size, np.int64)
    found = np.empty(firsts.size - 1, np.int64)
    evicted, used = place_blocks(
        firsts,
        blocks.astype(np.int64),
        many if capacity is None else capacity,
        np.zeros(many + 1, np.int64),
        np.zeros(many + 1, np.int64),
        np.full(many, NOWHERE, np.int64),
        slots,
        found,
    )
    return Placed(slots, found, int(evicted), int(used))


BATCH_REQUESTS = 1 << 20
MOST_TOKENS = 1 << 31  # of a request


class Served(NamedTuple):
    """All requests of a file, and the concatenated ids of the full blocks that they refer to."""

    time_ns: NDArray[np.int64]
    firsts: NDArray[np.int64]  # shape (requests + 1,): where the references of each begin
    ids: NDArray[np.int64]
    lines: NDArray[np.int64]
    observed: dict[str, int]  # what was counted while reading
    assumed: tuple[str, ...] = ()  # what the file does not say, in words


def named(name: str, choices: Choices) -> KvChoices:
    """Whose KV cache it is.  Errors: ``TraceError`` beginning with ``name`` if nobody said."""
    if choices.kv is None:
        raise TraceError(
            f"{name}: blocks of tokens have a size once a model is named: --model llama-3-70b"
        )
    return choices.kv


class Service:
    """The requests of one NIC next to a KV cache pool, generated on demand."""

    def __init__(self, name: str, served: Served, choices: Choices) -> None:
        """Errors: ``TraceError`` beginning with ``name`` if no model is named, or none fits."""
        kv = named(name, choices)
        self._served, self._choices, self._kv = served, choices, kv
        self._placed = place(served.firsts, served.ids, kv.blocks)
        self._pool = Pool(kv, self._placed.used)
        self.rows = len(served.ids) * self._pool.requests_of_block

    def tell(self, metadata: TraceMetadata, importer: str) -> None:
        """Record in ``metadata`` what was read, chosen and assumed."""
        metadata.page_size = self._choices.page_size
        metadata.origin.update(importer=importer, **self._kv.said())
        if self._served.assumed:
            metadata.origin["assumed"] = list(self._served.assumed)
        metadata.regions = [
            {"address": int(start), "bytes": self._pool.region_bytes} for start in self._pool.starts
        ]
        served, block_bytes = self._served, self._pool.block_bytes
        read = int(self._placed.found.sum())
        written = len(served.ids) - read
        metadata.observed.update(
            {
                "service_requests": len(served.lines),
                **served.observed,
                "full_block_references": len(served.ids),
                "distinct_full_blocks": int(np.unique(served.ids).size),
                "blocks_read": read,
                "blocks_written": written,
                "blocks_evicted": self._placed.evicted,
                "bytes_read": read * block_bytes,
                "bytes_written": written * block_bytes,
            }
        )

    def batches(self) -> Iterator[Imported]:
        """All requests from the first one on; may be iterated more than once."""
        served, placed, each = self._served, self._placed, self._pool.requests_of_block
        request = np.repeat(np.arange(len(served.lines)), np.diff(served.firsts))
        is_found = np.arange(len(request)) - served.firsts[request] < placed.found[request]
        step = max(1, BATCH_REQUESTS // each)
        for first in range(0, len(request), step):
            piece = slice(first, first + step)
            address, length = self._pool.requests(placed.slots[piece])
            op = np.where(is_found[piece], Op.SERVE_READ, Op.SERVE_WRITE).astype(np.uint8)
            columns = {
                "time_ns": np.repeat(served.time_ns[request[piece]], each),
                "node": filled(self._choices.node, len(address), np.int32),
                "pid": filled(self._choices.pid, len(address), np.int32),
                "op": np.repeat(op, each),
                "address": address,
                "length": length,
            }
            yield Imported(columns, numbered("line {}", served.lines[request[piece]].repeat(each)))


def read_service(
    importer: str,
    read: Reader,
    source: Input,
    choices: Choices,
    metadata: TraceMetadata,
    watch: Watch | None = None,
) -> Iterator[Imported]:
    """Requests of one rank's NIC next to a KV cache pool; ``choices.kv`` names the model.

    Errors: ``TraceError`` naming the line that is no such request, or if no model is named.
    """
    kv = named(source.name, choices)
    service = Service(source.name, read(source, kv, watch), choices)
    service.tell(metadata, importer)
    yield from service.batches()


NS_PER_MS = 1_000_000
_MOST_MS = 1 << 43  # some 280 years; the nanoseconds of it are 63 bits
_EXAMPLE = '{"timestamp": 0, "input_length": 600, "output_length": 20, "hash_ids": [0, 1]}'


class _Line(msgspec.Struct):
    """A line of the file."""

    timestamp: int
    input_length: int
    output_length: int
    hash_ids: list[int]


def read_mooncake(
    source: Input, kv: KvChoices | None, watch: Watch | None = None, *, partial: bool = False
) -> Served:
    """The requests of a file; ``kv`` may not decide what the file says.

    ``partial``: blocks that are not full count as well, which no engine keeps.

    Errors: ``TraceError`` naming the line that is no such request.
    """
    if kv is not None and kv.guesses():
        raise TraceError(
            f"{source.name}: names its blocks of {BLOCK_TOKENS} tokens; leave --block-tokens, "
            "--prefix and --generated out"
        )
    decoder = msgspec.json.Decoder(_Line)
    times, lines, firsts = [], [], [0]
    ids: list[int] = []
    seen: set[int] = set()
    references, inputs, outputs, latest = 0, 0, 0, 0
    for first, block in ByteSource(source, watch).blocks():
        for number, text in enumerate(block.split(b"\n")[:-1], first):
            if not text.strip():
                continue
            where = f"{source.name}: line {number}"
            try:
                line = decoder.decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise TraceError(
                    f"{where}: no request of Mooncake's: {one_line(str(error))}; a line is such as "
                    f"{_EXAMPLE}"
                ) from error
            _check(line, latest, where)
            latest = line.timestamp
            times.append(line.timestamp)
            lines.append(number)
            ids += line.hash_ids if partial else line.hash_ids[: line.input_length // BLOCK_TOKENS]
            firsts.append(len(ids))
            seen.update(line.hash_ids)
            references += len(line.hash_ids)
            inputs += line.input_length
            outputs += line.output_length
    return Served(
        np.array(times, np.int64) * NS_PER_MS,
        np.array(firsts, np.int64),
        np.array(ids, np.int64),
        np.array(lines, np.int64),
        {
            "input_tokens": inputs,
            "output_tokens": outputs,
            "block_references": references,
            "distinct_blocks": len(seen),
        },
    )


def _check(line: _Line, latest: int, where: str) -> None:
    """Errors: ``TraceError`` beginning with ``where`` for what cannot be."""
    if not 0 <= line.timestamp < _MOST_MS:
        raise TraceError(f"{where}: timestamp must be milliseconds from 0 on: {line.timestamp}")
    if line.timestamp < latest:
        raise TraceError(
            f"{where}: timestamp {line.timestamp} after {latest}; sort the lines by time"
        )
    for name in ("input_length", "output_length"):
        if not 0 <= getattr(line, name) < MOST_TOKENS:
            raise TraceError(f"{where}: {name} must be tokens, got {getattr(line, name)}")
    blocks = -(-line.input_length // BLOCK_TOKENS)
    if len(line.hash_ids) != blocks:
        raise TraceError(
            f"{where}: {line.input_length} tokens are {blocks} blocks of {BLOCK_TOKENS}, and "
            f"hash_ids has {len(line.hash_ids)}"
        )
    if len({*line.hash_ids}) < blocks:
        raise TraceError(f"{where}: names a block twice, which stands for all before it too")
    if any(not -(1 << 63) <= each < 1 << 63 for each in line.hash_ids):
        raise TraceError(f"{where}: a number of a block has more than 64 bits")


NS_PER_S = 10**9
_SECONDS = pa.decimal128(19, 9)  # nanoseconds of them are 63 bits
_ZONE = r"(\+00:00|Z)$"


class Columns(NamedTuple):
    """The column names of one kind of file."""

    time: str
    input: str
    output: str
    time_ns: Callable[[Any], Any]  # of a column of text
    a_time: str  # such as it should be
    failed: bool  # a request that has generated nothing has failed


def _of_clock(texts: Any) -> Any:
    import pyarrow.compute as pc  # commands that read no such trace need not wait for it

    plain = pc.replace_substring_regex(texts, _ZONE, "")
    return plain.cast(pa.timestamp("ns")).cast(pa.int64())


def _of_seconds(texts: Any) -> Any:
    import pyarrow.compute as pc

    scale = pa.scalar(NS_PER_S, pa.decimal128(10, 0))
    return pc.multiply(texts.cast(_SECONDS), scale).cast(pa.int64())


AZURE = Columns(
    "TIMESTAMP", "ContextTokens", "GeneratedTokens", _of_clock, "2023-11-16 18:15:46.68", False
)
BURSTGPT = Columns("Timestamp", "Request tokens", "Response tokens", _of_seconds, "45", True)


def columns_in(header: bytes) -> Columns | None:
    """The kind of file that has this header line, None if it is neither."""
    names = set(names_in(header))
    kinds = (AZURE, BURSTGPT)
    return next((one for one in kinds if {one.time, one.input, one.output} <= names), None)


class _Table(NamedTuple):
    """The columns read from a file."""

    time_ns: NDArray[np.int64]
    input: NDArray[np.int64]
    output: NDArray[np.int64]
    lines: NDArray[np.int64]


def _read(
    columns: Columns, source: Input, kv: KvChoices | None, watch: Watch | None = None
) -> Served:
    parts = [
        _rows(source.name, first, lines, table, columns)
        for first, lines, table in parsed_blocks(source, watch, partial(_layout_of, columns))
    ]
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


def _layout_of(columns: Columns, called: str, header: bytes) -> tuple[Layout, bool]:
    check_width(called, header.count(b",") + 1)
    names = names_in(header)
    for name in (columns.time, columns.input, columns.output):
        if names.count(name) != 1:
            raise TraceError(
                f"{called}: column {name!r} is there {names.count(name)} times in the header line; "
                f"it has {columns.time}, {columns.input} and {columns.output}"
            )
    numbers = (columns.input, columns.output)
    types = {each: pa.int64() if each in numbers else pa.string() for each in names}
    return Layout(names, types), True


def _rows(name: str, start: int, rows: bytes, table: Any, columns: Columns) -> _Table:
    if rows.count(b"\n") == table.num_rows:
        lines = np.arange(start, start + table.num_rows)
    else:  # blank lines hold no row
        lines = np.array([line_of(start, rows, row) for row in range(table.num_rows)], np.int64)
    counts = []
    for each in (columns.input, columns.output):
        found = table.column(each).combine_chunks()
        tokens = np.asarray(found.fill_null(-1))
        bad = np.flatnonzero((tokens < 0) | (tokens >= MOST_TOKENS))
        if bad.size:
            raise TraceError(
                f"{name}: line {lines[bad[0]]}: {each} must be tokens, got {found[bad[0]].as_py()}"
            )
        counts.append(tokens)
    texts = table.column(columns.time).combine_chunks()
    return _Table(_times(name, lines, texts, columns), counts[0], counts[1], lines)


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
