"""Figure 7: which misses are compulsory, for want of capacity, or conflicts, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from nicscope.studies.reproduce.harness import load_papers
from nicscope.studies.reproduce.traced.applications import open_applications
from nicscope.studies.reproduce.traced.running import run_studies
from nicscope.traces.schema import TraceMetadata
from nicscope.traces.writer import write_trace

PAGE = 4096


def kinds_of(path, pages):
    """The row of Figure 7 for one process that touches ``pages``, by entries of the cache."""
    many = len(pages)
    columns = {
        "time_ns": np.arange(many, dtype=np.int64),
        "node": np.zeros(many, np.int32),
        "pid": np.full(many, 3, np.int32),
        "op": np.zeros(many, np.uint8),
        "address": (np.array(pages) * PAGE).astype(np.uint64),
        "length": np.full(many, PAGE, np.uint32),
    }
    write_trace(path, columns, TraceMetadata(page_size=PAGE))
    studied = run_studies([("utlb", "figure7")], open_applications([path]), load_papers())
    names = ("compulsory", "capacity", "conflict", "ni_misses")
    return {
        row["cache_entries"]: tuple(round(row[f"{name}_per_lookup"] * many) for name in names)
        for row in studied.tables[0].rows
    }


@pytest.mark.requirement("UT-89")
def test_two_pages_of_one_entry_conflict_until_the_cache_is_large_enough_to_part_them(tmp_path):
    found = kinds_of(tmp_path / "a.parquet", [0, 1024] * 10)
    assert found[1024] == (2, 0, 18, 20)
    assert found[2048] == found[16384] == (2, 0, 0, 2)


@pytest.mark.requirement("UT-89")
def test_more_pages_than_entries_in_turn_miss_for_want_of_capacity(tmp_path):
    # Of 1200 pages 0 to 175 share their entries with 1024 to 1199; the others stay.
    found = kinds_of(tmp_path / "a.parquet", [*range(1200)] * 2)
    assert found[1024] == (1200, 2 * 176, 0, 1200 + 2 * 176)
    assert found[2048] == (1200, 0, 0, 1200)
