"""Collectives on every interface: what ``nicscope apps collective`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import StudyError, in_one_line
from nicscope.library.command import assignments as set_of
from nicscope.library.command import command_line, number, texts, whole, word
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from nicscope.library.command import One, Word
    from nicscope.reports.collectives import ShownCollectives

NODES = 4
SIZES = "8:64K:8"
REPEAT = 3


def collective_names() -> list[str]:
    """The collectives that ``run_collective`` runs."""
    from nicscope.studies.collectives.report import ALGORITHMS

    return list(ALGORITHMS)


@in_one_line
def run_collective(
    name: Word,
    on: Word = "vmmc",
    *,
    nodes: int = NODES,
    sizes: Word = SIZES,
    algorithm: Word = None,
    design: str | Path | None = None,
    platform: str | Path | None = None,
    way: str | None = None,
    kind: str = "f8",
    operation: str = "sum",
    repeat: int = REPEAT,
    seed: int = 0,
    loss: float = 0.0,
    duplication: float = 0.0,
    corruption: float = 0.0,
    dead: str | Iterable[str] | None = None,
    add: float = 0.0,
    assignments: str | Iterable[str] | None = None,
    **settings: One,
) -> ShownCollectives:
    """Run collectives in virtual time, check what they give, and tell how long they take.

    Args:
        name: broadcast, allreduce, alltoall, barrier or lock; several, or all.
        on: unet, vmmc, mini, via or trapeze; several, or all.
        nodes: of the cluster, with a process each.
        sizes: bytes of each process's array: a list, ``"8:1M"`` (doubling) or ``"8:1M:4"``.
        algorithm: tree, ring, pairwise, dissemination, manager, remote; several, or all; None: the
            usual one of each collective.
        design: what translates on the NIC; None: the interface's own.
        platform: what things cost; None: the design's.
        way: into the NIC; None: the design's.
        kind: of numbers: u1, i4, i8, f4 or f8; arrays of no whole number of these are of u1.
        operation: sum, max or min.
        repeat: calls after the first.
        seed: of the numbers, and of what goes wrong.
        loss: share of packets that are lost.
        duplication: share that come twice.
        corruption: share that are damaged.
        dead: ``NODE@US``, one or several: who dies after how many us.
        add: ns that the processor takes to put a byte of two arrays together.
        assignments: ``KEY=VALUE``, one or several, of the design.
        settings: the same by name, such as ``entries=64``.

    Errors: ``NicscopeError``; for a wrong result too.

    """
    from nicscope.reports.collectives import ShownCollectives
    from nicscope.studies.collectives.report import ask, dead_node, faults_of, measure

    counts = {
        called: whole(called, value)
        for called, value in (("nodes", nodes), ("repeat", repeat), ("seed", seed))
    }
    if (counts["seed"] or 0) < 0:
        raise StudyError(f"seed must be at least 0, got {seed}")
    chances = {
        called: number(called, value) or 0.0
        for called, value in (
            ("loss", loss),
            ("duplication", duplication),
            ("corruption", corruption),
        )
    }
    overrides = set_of(assignments, settings)
    given = {
        f"--{called}": word(called, value) or ""
        for called, value in (("name", name), ("on", on), ("sizes", sizes))
    }
    question = ask(
        given["--name"],
        given["--on"],
        sizes=given["--sizes"],
        algorithms=word("algorithm", algorithm),
        nodes=counts["nodes"] or 0,
        design=None if design is None else str(design),
        platform=None if platform is None else str(platform),
        way=way,
        assignments=overrides,
        kind=kind,
        operation=operation,
        repeat=counts["repeat"] or 0,
        seed=counts["seed"] or 0,
        faults=faults_of(seed, **chances, deaths=[dead_node(one) for one in texts(dead)]),
        add_ns_per_byte=number("add", add) or 0.0,
    )
    options = {
        "--on": given["--on"],
        "--nodes": nodes,
        "--sizes": given["--sizes"],
        "--algorithm": word("algorithm", algorithm),
        "--design": design,
        "--platform": platform,
        "--way": way,
        "--type": kind,
        "--operation": operation,
        "--repeat": repeat,
        "--seed": seed,
        **{f"--{called}": value or None for called, value in chances.items()},
        "--dead": texts(dead),
        "--add": add or None,
        "--set": overrides,
    }
    command = command_line(["apps", "collective", given["--name"]], options)
    with progress("calling", "calls", always_say=True) as watch:
        return ShownCollectives(measure(question, command, watch))
