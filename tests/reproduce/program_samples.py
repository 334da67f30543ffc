"""Programs of the papers' tables at sizes that take a second together, or a few each."""

from __future__ import annotations

from typing import NamedTuple

from nicscope.studies.reproduce.harness import load_papers
from nicscope.studies.reproduce.traced.measuring import Asked, Findings, find_study, measure
from nicscope.studies.reproduce.traced.programs import (
    SMALL,
    WORKLOADS,
    Program,
    Workload,
    run_programs,
)

# But for FFT both sizes are one, so that its traces serve both.
TINY = Workload(
    (
        Program("Barnes", "barnes", "256", "256"),
        Program("FFT", "fft", "4K", "16K"),
        Program("LU", "lu", "256", "256"),
        Program("Radix", "radix", "16K", "16K"),
        Program("Raytrace", "raytrace", "16", "16"),
        Program("Volrend", "volrend", "16", "16"),
        Program("Water", "water-spatial", "64", "64"),
    ),
    nodes=2,
    processes=2,
    reduction=64,
)


def have_tiny(monkeypatch, folder):
    """Have the UTLB paper's programs be ``TINY``, and their traces kept in ``folder``."""
    monkeypatch.setitem(WORKLOADS, "utlb", TINY)
    monkeypatch.setattr(
        "nicscope.studies.reproduce.traced.programs.store.folder", lambda: folder / "entries"
    )


class Reduced(NamedTuple):
    """A program at a size, with caches and pin limits of the paper by as much as its pages."""

    program: Program
    reduction: int


REDUCED = {
    "FFT": Reduced(Program("FFT", "fft", "1M", "4M"), 4),
    "LU": Reduced(Program("LU", "lu", "1K", "4K"), 16),
    "Radix": Reduced(Program("Radix", "radix", "1M", "4M"), 4),
}


def reduced_rows(folder, label, name):
    """What a study of UTLB makes of one of ``REDUCED``; caches are told by the paper's sizes."""
    one = REDUCED[label]
    workload = Workload((one.program,), nodes=4, processes=4, reduction=one.reduction)
    [application] = run_programs(workload, SMALL, folder)
    study = find_study("utlb", name)
    trace = application.trace
    designs = study.designs(trace.metadata.page_size)
    asked = Asked(list(designs.values()), study.caches, study.nodes, one.reduction)
    measured = measure(label, trace.batches, trace.metadata.page_size, asked)
    return study.rows(Findings(measured, designs))


def printed_row(name, label, **at):
    """What the paper prints of that application there."""
    items = load_papers()["utlb"].items
    rows = items[name].table.printed_rows(items, name)
    [row] = [
        row
        for row in rows
        if row["application"] == label and all(row[key] == at[key] for key in at)
    ]
    return {key: float(value) for key, value in row.items() if key != "application"}
