"""Mooncake's traces of a language model's service: what a pool of KV cache reads and writes.

A line is a request: ``timestamp`` (ms), ``input_length`` and ``output_length`` (tokens),
``hash_ids``, one for each 512 tokens of the input, the last of which need not be full.  Engines
keep full blocks alone, so those are what is transferred.  The trace is that of one rank's NIC
beside the pool: blocks that are found are read out of its memory, the others written into it.

Source of the format: github.com/kvcache-ai/Mooncake, FAST25-release.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from nicscope.errors import TraceError, one_line
from nicscope.traces.files import ByteSource
from nicscope.traces.imported import Imported, filled
from nicscope.traces.kv_layout import BLOCK_TOKENS, Cutter
from nicscope.traces.kv_pool import place
from nicscope.traces.schema import Op

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from numpy.typing import NDArray

    from nicscope.inputs import Input
    from nicscope.traces.files import Watch
    from nicscope.traces.imported import Choices
    from nicscope.traces.kv_pool import Placed
    from nicscope.traces.schema import TraceMetadata

BATCH_REQUESTS = 1 << 20
NS_PER_MS = 1_000_000
_MOST_TOKENS = 1 << 31
_MOST_MS = 1 << 43  # some 280 years; the nanoseconds of it are 63 bits
_EXAMPLE = '{"timestamp": 0, "input_length": 600, "output_length": 20, "hash_ids": [0, 1]}'


class _Line(msgspec.Struct):
    """A line of the file."""

    timestamp: int
    input_length: int
    output_length: int
    hash_ids: list[int]


class _Served(NamedTuple):
    """All requests of a file; their references to full blocks one after the other."""

    time_ns: NDArray[np.int64]
    firsts: NDArray[np.int64]  # shape (requests + 1,): where the references of each begin
    ids: NDArray[np.int64]
    lines: NDArray[np.int64]
    references: int  # those of blocks that are not full among them
    distinct: int
    input_tokens: int
    output_tokens: int


def read_mooncake(
    source: Input, choices: Choices, metadata: TraceMetadata, watch: Watch | None = None
) -> Iterator[Imported]:
    """Requests of one rank's NIC beside a pool of KV cache; ``choices.kv`` says of which model.

    Errors: ``TraceError`` naming the line that is no such request, or if no model is named.
    """
    kv = choices.kv
    if kv is None:
        raise TraceError(
            f"{source.name}: blocks of tokens have a size once a model is named: --model "
            "llama-3-70b"
        )
    served = _read(source, watch)
    placed = place(served.firsts, served.ids, kv.blocks)
    store = kv.store(placed.used)
    cutter = Cutter(store)
    metadata.page_size = choices.page_size
    metadata.origin.update(importer="mooncake", **kv.said())
    metadata.regions = [
        {"address": int(start), "bytes": store.region_bytes} for start in store.region_starts()
    ]
    metadata.observed.update(_observed(served, placed, store.block_bytes))
    request = np.repeat(np.arange(len(served.lines)), np.diff(served.firsts))
    is_found = np.arange(len(request)) - served.firsts[request] < placed.found[request]
    each = cutter.requests_of_block
    step = max(1, BATCH_REQUESTS // each)
    for first in range(0, len(request), step):
        piece = slice(first, first + step)
        address, length = cutter.requests(placed.slots[piece])
        op = np.where(is_found[piece], Op.SERVE_READ, Op.SERVE_WRITE).astype(np.uint8)
        columns = {
            "time_ns": np.repeat(served.time_ns[request[piece]], each),
            "node": filled(choices.node, len(address), np.int32),
            "pid": filled(choices.pid, len(address), np.int32),
            "op": np.repeat(op, each),
            "address": address,
            "length": length,
        }
        yield Imported(columns, functools.partial(_place, served.lines[request[piece]], each))


def _place(lines: NDArray[np.int64], each: int, row: int) -> str:
    return f"line {lines[row // each]}"


def _read(source: Input, watch: Watch | None) -> _Served:
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
            ids += line.hash_ids[: line.input_length // BLOCK_TOKENS]
            firsts.append(len(ids))
            seen.update(line.hash_ids)
            references += len(line.hash_ids)
            inputs += line.input_length
            outputs += line.output_length
    return _Served(
        np.array(times, np.int64) * NS_PER_MS,
        np.array(firsts, np.int64),
        np.array(ids, np.int64),
        np.array(lines, np.int64),
        references,
        len(seen),
        inputs,
        outputs,
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
        if not 0 <= getattr(line, name) < _MOST_TOKENS:
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


def _observed(served: _Served, placed: Placed, block_bytes: int) -> dict[str, Any]:
    read = int(placed.found.sum())
    written = len(served.ids) - read
    return {
        "service_requests": len(served.lines),
        "input_tokens": served.input_tokens,
        "output_tokens": served.output_tokens,
        "block_references": served.references,
        "distinct_blocks": served.distinct,
        "full_block_references": len(served.ids),
        "distinct_full_blocks": int(np.unique(served.ids).size),
        "blocks_read": read,
        "blocks_written": written,
        "blocks_evicted": placed.evicted,
        "bytes_read": read * block_bytes,
        "bytes_written": written * block_bytes,
    }
