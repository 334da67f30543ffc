"""Trace files for the studies: traffic that fills caches and pin limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.studies.reproduce.harness import load_papers
from nicscope.studies.reproduce.shared_memory_traffic import shared_memory_traffic
from nicscope.studies.reproduce.traced.applications import open_applications
from nicscope.studies.reproduce.traced.running import run_studies
from nicscope.traces.schema import TraceMetadata
from nicscope.traces.writer import write_trace

if TYPE_CHECKING:
    from pathlib import Path

    from nicscope.studies.reproduce.traced.running import StudyTable
    from nicscope.traces.schema import Requests

# 4 KB pages sixteen to a page, so that few requests reach the limits of 4 and 16 MB.
PAGE_SIZE = 65536
REGION_PAGES = 12_000
ALL = [
    ("mini", "figure5"),
    ("utlb", "table4"),
    ("utlb", "table5"),
    ("utlb", "table7"),
    ("utlb", "table8"),
    ("utlb", "figure7"),
    ("utlb", "figure8"),
]


def write_sample(
    path: Path, seed: int = 1, rows: int = 6000, origin: dict[str, Any] | None = None
) -> Path:
    """A trace of ``rows`` requests of ten processes on two nodes."""
    requests = shared_memory_traffic(rows=rows, region_pages=REGION_PAGES, seed=seed)
    return write_requests(path, requests, origin)


def write_requests(path: Path, requests: Requests, origin: dict[str, Any] | None = None) -> Path:
    """A trace of ``requests`` with large pages."""
    metadata = TraceMetadata(page_size=PAGE_SIZE, origin=origin or {})
    columns = requests._asdict()
    del columns["receive"]
    write_trace(path, columns, metadata)
    return path


def tables_of(*files: Path) -> dict[str, StudyTable]:
    """Every study of ``files``, by PAPER/ID."""
    applications = open_applications(files)
    tables, points = run_studies(ALL, applications, load_papers(), bundled=False)
    assert not points
    return {f"{table.paper}/{table.id}": table for table in tables}
