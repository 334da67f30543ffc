"""Mooncake's traces of a language model's service: requests that name their blocks.

A line is a request: ``timestamp`` (ms), ``input_length`` and ``output_length`` (tokens),
``hash_ids``, one for each 512 tokens of the input, the last of which need not be full.

Source of the format: github.com/kvcache-ai/Mooncake, FAST25-release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from nicscope.errors import TraceError, one_line
from nicscope.traces.files import ByteSource
from nicscope.traces.importers.served import MOST_TOKENS, Served
from nicscope.traces.kv_layout import BLOCK_TOKENS

if TYPE_CHECKING:
    from nicscope.inputs import Input
    from nicscope.traces.files import Watch
    from nicscope.traces.kv_layout import KvChoices

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
