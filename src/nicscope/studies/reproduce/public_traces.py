"""Items that public traces answer, which somebody has to bring: what comes of them.

A file is known by its bytes, whatever it is called.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from nicscope.errors import TraceError
from nicscope.inputs import Input
from nicscope.traces.importers.services import place, read_mooncake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from nicscope.studies.reproduce.verdict import Outcome, Paper

    Asked = Callable[[Outcome, str, Path], None]

ENDING = ".jsonl"
FEW_BLOCKS = 5_859  # 3 million tokens (FAST'25, Figure 9)


class Counts(NamedTuple):
    """What a pool makes of one trace."""

    references: int
    distinct: int
    full_references: int
    read: int  # full blocks, of a pool without a limit
    written: int
    hits: int  # of all references, of a pool without a limit
    few_hits: int  # of one of ``FEW_BLOCKS``


def parted(files: Sequence[Path], papers: Iterable[Paper]) -> tuple[dict[str, Path], list[Path]]:
    """The public traces among ``files`` by name, and all others.

    Errors: ``TraceError`` if one cannot be read.
    """
    named = {digest: name for paper in papers for name, digest in paper.traces.items()}
    public, others = {}, []
    for path in files:
        name = named.get(_digest(path)) if path.suffix == ENDING else None
        if name is None:
            others.append(path)
        else:
            public[name] = path
    return public, others


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with Input(path, TraceError) as source:
        while piece := source.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


@cache
def counts_of(path: Path) -> Counts:
    """What comes of the trace at ``path``."""
    with Input(path, TraceError) as source:
        full = read_mooncake(source, None)
    with Input(path, TraceError) as source:
        every = read_mooncake(source, None, partial=True)
    pool = place(full.firsts, full.ids, None)
    read = int(pool.found.sum())
    hits = []
    for blocks in (None, FEW_BLOCKS):
        placed = place(every.firsts, every.ids, blocks)
        # What is not a hit takes a slot that was free, or another block's.
        hits.append(len(every.ids) - placed.used - placed.evicted)
    return Counts(
        full.observed["block_references"],
        full.observed["distinct_blocks"],
        len(full.ids),
        read,
        len(full.ids) - read,
        *hits,
    )


def count(outcome: Outcome, trace: str, path: Path) -> None:
    """Blocks of the public traces."""
    found = counts_of(path)._asdict()
    for name in ("references", "distinct", "full_references", "read", "written"):
        outcome.point(name, "blocks", found[name], trace=trace)


def share(outcome: Outcome, trace: str, path: Path) -> None:
    """How many of the full blocks a pool without a limit has."""
    found = counts_of(path)
    outcome.point("found", "%", 100 * found.read / found.full_references, trace=trace)


def little(outcome: Outcome, trace: str, path: Path) -> None:
    """What a pool of 3 million tokens has of the hits that there could be."""
    found = counts_of(path)
    part = found.few_hits / found.hits
    before, told = outcome.shapes.get("less-than-half", (True, ""))
    told = f"{told}, {trace}" if told else trace
    outcome.shape("less-than-half", before and part < 0.5, f"{told} {100 * part:.1f} %")


ASKED: Mapping[tuple[str, str], Asked] = {
    ("today", "t1"): count,
    ("today", "t2"): share,
    ("today", "t3"): little,
}
