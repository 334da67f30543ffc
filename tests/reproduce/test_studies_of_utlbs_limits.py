"""Studies of UTLB worked out by hand: kinds of misses, programs together, tables per process."""

import numpy as np
import pytest

from nicscope.errors import StudyError
from nicscope.studies.reproduce.harness import load_papers
from nicscope.studies.reproduce.traced.measuring import mixed, run_studies
from nicscope.studies.reproduce.traced.programs import open_applications
from nicscope.traces.reader import open_trace
from nicscope.traces.schema import TraceMetadata
from nicscope.traces.writer import write_trace

pytestmark = pytest.mark.compiled  # thousands of lookups

PAGE = 4096


def write_loop(
    path, pages, rounds, *, pids = (7,), gap_ns = 10,
    page_size = PAGE, nodes = 1
):  # fmt: skip
    """Each process touches its pages in order, again and again, on every node."""
    rows = [
        (node, pid, page)
        for _ in range(rounds)
        for page in range(pages)
        for pid in pids
        for node in range(nodes)
    ]
    return write_pages(path, rows, gap_ns, page_size)


def write_pages(path, rows, gap_ns=1, page_size=PAGE):
    """Requests of (node, process, page)."""
    node, pid, page = (np.array(column) for column in zip(*rows, strict=True))
    columns = {
        "time_ns": np.arange(len(rows), dtype=np.int64) * gap_ns,
        "node": node.astype(np.int32),
        "pid": pid.astype(np.int32),
        "op": np.zeros(len(rows), np.uint8),
        "address": (page * page_size).astype(np.uint64),
        "length": np.full(len(rows), page_size, np.uint32),
    }
    write_trace(path, columns, TraceMetadata(page_size=page_size))
    return path


def table_of(name, *files):
    found = run_studies([("utlb", name)], open_applications(files), load_papers())
    assert found.points == []
    [table] = found.tables
    return {row["cache_entries"]: row for row in table.rows}, table


def kinds_of(folder, pages):
    """By entries of the cache, misses of a process that touches ``pages``."""
    file = write_pages(folder / "a.parquet", [(0, 3, page) for page in pages])
    names = ("compulsory", "capacity", "conflict", "ni_misses")
    return {
        entries: tuple(round(row[f"{name}_per_lookup"] * len(pages)) for name in names)
        for entries, row in table_of("figure7", file)[0].items()
    }


@pytest.mark.requirement("UT-89")
def test_two_pages_of_one_entry_conflict_until_the_cache_is_large_enough_to_part_them(tmp_path):
    found = kinds_of(tmp_path, [0, 1024] * 10)
    assert found[1024] == (2, 0, 18, 20)
    assert found[2048] == found[16384] == (2, 0, 0, 2)


@pytest.mark.requirement("UT-89")
def test_more_pages_than_entries_in_turn_miss_for_want_of_capacity(tmp_path):
    # Of 1200 pages 0 to 175 share their entries with 1024 to 1199; the others stay.
    found = kinds_of(tmp_path, [*range(1200)] * 2)
    assert found[1024] == (1200, 2 * 176, 0, 1200 + 2 * 176)
    assert found[2048] == (1200, 0, 0, 1200)


def test_two_programs_that_fit_a_cache_each_have_capacity_misses_together(tmp_path):
    files = [write_loop(tmp_path / f"{name}.parquet", 700, 3) for name in "ab"]

    rows, table = table_of("section7_independent", *files)

    first = 1 / 3  # of three rounds only the first is new
    for entries in (1024, 4096):
        assert rows[entries]["compulsory_alone_per_lookup"] == pytest.approx(first)
        assert rows[entries]["compulsory_together_per_lookup"] == pytest.approx(first)
        assert rows[entries]["misses_alone_per_lookup"] == pytest.approx(first)
    # 1400 pages in turn leave nothing in 1024 entries for the next round; in 4096 all fits.
    assert rows[1024]["capacity_together_per_lookup"] > 0.3
    assert rows[4096]["capacity_together_per_lookup"] == 0
    # Without an index offset equal pages of both want one entry each time.
    assert rows[4096]["without_offset_together_per_lookup"] == 1
    assert rows[4096]["without_offset_alone_per_lookup"] == pytest.approx(first)
    assert [row["application"] for row in table.rows] == ["all"] * 5


def test_one_trace_has_the_same_misses_alone_and_together_and_the_table_says_so(tmp_path):
    rows, table = table_of("section7_independent", write_loop(tmp_path / "a.parquet", 90, 2))

    for row in rows.values():
        assert row["misses_alone_per_lookup"] == row["misses_together_per_lookup"]
    assert table.notes == ["one trace has nothing beside it: give several"]


def test_programs_that_run_together_keep_their_processes_nodes_and_order(tmp_path):
    slow = open_trace(write_loop(tmp_path / "slow.parquet", 5, 2, pids=(1, 9), gap_ns=1000))
    fast = open_trace(write_loop(tmp_path / "fast.parquet", 8, 4, pids=(9,), nodes=2))

    found = mixed([slow, fast])

    assert (np.diff(found.time_ns) >= 0).all()
    assert len(found.pid) == slow.rows + fast.rows
    parts = [trace.read() for trace in (slow, fast)]
    names = [sorted({*zip(part.node.tolist(), part.pid.tolist(), strict=True)}) for part in parts]
    streams = [
        part.address[(part.node == node) & (part.pid == pid)].tolist()
        for part, own in zip(parts, names, strict=True)
        for node, pid in own
    ]
    together = sorted({*zip(found.node.tolist(), found.pid.tolist(), strict=True)})
    assert len(together) == len(streams) == 4
    mine = [
        found.address[(found.node == node) & (found.pid == pid)].tolist() for node, pid in together
    ]
    assert sorted(mine) == sorted(streams)
    # All run all the while: of each quarter of the span every program has its quarter.
    quarter = found.time_ns < found.time_ns.max() / 4
    assert np.count_nonzero(quarter[found.node == 1]) == pytest.approx(8, abs=1)


def test_pages_of_different_sizes_cannot_run_together(tmp_path):
    traces = [
        open_trace(write_loop(tmp_path / f"{size}.parquet", 2, 1, page_size=size))
        for size in (4096, 8192)
    ]
    with pytest.raises(StudyError, match="pages of 4096, 8192 bytes"):
        mixed(traces)


def test_tables_per_process_get_as_much_nic_memory_as_the_shared_cache_and_no_more(tmp_path):
    file = write_loop(tmp_path / "a.parquet", 400, 2, pids=(1, 2, 3))

    rows, _ = table_of("section7_per_process", file)

    for entries, row in rows.items():
        assert row["shared_entries"] == entries
        assert row["per_process_nic_kib"] <= row["shared_nic_kib"]
        assert row["per_process_nic_kib"] > 0.6 * row["shared_nic_kib"]
    # 1200 pages of three processes, 8 bytes an entry of the cache and 4 of a table: 1024 entries
    # are tables of 512 each, which hold the 400 pages of a process; the cache does not hold 1200.
    few = rows[1024]
    assert few["per_process_entries"] == 512
    assert few["check_misses_per_process_per_lookup"] == pytest.approx(0.5)
    assert few["ni_misses_per_process_per_lookup"] == 0
    assert few["ni_misses_shared_per_lookup"] > 0.6
    assert few["unpins_shared_per_lookup"] == few["unpins_per_process_per_lookup"] == 0
    assert few["cost_per_process_us_per_lookup"] < few["cost_shared_us_per_lookup"]


def test_a_process_with_more_pages_than_its_table_unpins_where_the_shared_cache_does_not(tmp_path):
    file = write_loop(tmp_path / "a.parquet", 1500, 2, pids=(1, 2))

    rows, _ = table_of("section7_per_process", file)

    assert rows[1024]["per_process_entries"] == 1024
    assert rows[1024]["unpins_per_process_per_lookup"] == pytest.approx((3000 - 1024) / 3000)
    assert rows[1024]["check_misses_per_process_per_lookup"] == 1
    assert rows[1024]["check_misses_shared_per_lookup"] == pytest.approx(0.5)
    assert rows[1024]["unpins_shared_per_lookup"] == 0
