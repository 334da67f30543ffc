"""Whole sweeps: what their tables say is what single replays count, however they are run."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nicscope.errors import OutputError, StudyError, TraceError
from nicscope.studies.replaying import Subject, compare
from nicscope.studies.sweep import sweeping
from nicscope.studies.sweep.grid import ask
from nicscope.studies.sweep.sweeping import Sweep, load, sweep
from nicscope.studies.sweep.table import journal_path
from nicscope.traces.reader import open_trace
from nicscope.traces.schema import Op
from nicscope.traces.writer import TraceWriter
from refusals import refused

pytestmark = pytest.mark.compiled  # hundreds of replays

GRIDS = {
    "utlb": ["entries=8,64", "pin_limit=16,none", "replacement=lru,mru,random", "prefetch=1,4"],
    "utlb-shared": ["entries=8,64", "ways=1,2", "index_offset=true,false", "prepin=1,4"],
    "utlb-process": ["entries=8,64", "replacement=lru,random", "seed=1,2"],
    "vmmc-interrupt": ["entries=8,64", "pin_limit=16,none"],
    "unet-mm-pca200": ["entries=8,64", "victim_entries=0,4"],
    "mini": ["entries=64", "line=1,8", "ways=1,4", "high_water=20,none"],
    "unet": ["area_bytes=4KiB,64KiB"],
    "via-static": ["entries=8,64", "page_size=4KiB,64KiB,none"],
}


ROWS = 40


def write(path, rows=ROWS, nodes=3, seed=1, **replaced):
    rng = np.random.default_rng(seed)
    columns = {
        "time_ns": np.arange(rows, dtype=np.int64),
        "node": rng.integers(0, nodes, rows).astype(np.int32),
        "pid": rng.integers(7, 10, rows).astype(np.int32),
        "op": np.where(rng.random(rows) < 0.5, Op.SEND, Op.RECV).astype(np.uint8),
        "address": rng.integers(0, 60, rows).astype(np.uint64) * 4096 + 4000,
        "length": rng.integers(1, 9000, rows).astype(np.uint32),
    } | replaced
    with TraceWriter(path) as writer:
        writer.write(columns)
    return path


@pytest.fixture
def trace(tmp_path):
    return write(tmp_path / "t.parquet")


def ready(out, assignments, *traces, design="utlb", platform=None, kinds=True):
    grid = ask(design, platform, assignments, many=False)
    return Sweep(grid, [(path.stem, open_trace(path)) for path in traces], out, kinds)


@pytest.mark.parametrize(
    ("design", "kinds"), [*((name, True) for name in GRIDS), ("utlb", False), ("mini", False)]
)
def test_every_row_is_what_a_replay_of_that_design_alone_counts_and_costs(
    design, kinds, trace, tmp_path
):
    what = ready(tmp_path / "o.parquet", GRIDS[design], trace, design=design, kinds=kinds)

    sweep(what, workers=2)

    rows = pq.read_table(what.out).to_pylist()
    assert len(rows) == what.grid.size
    for point, row in zip(what.grid, rows, strict=True):
        subject = Subject(what.grid.design(point.design), what.grid.platform(point.pricing))
        [found] = compare(open_trace(trace), [subject], kinds=kinds).priced
        assert {name: row[name] for name in found.result.total} == found.result.total
        assert row["nodes"] == 3
        assert row["nic_memory_bytes"] == found.nic_bytes
        assert row["pinned_host_bytes"] == found.pinned_host_bytes
        assert row["page_size_bytes"] == found.result.design.page_size
        assert row["requested_bytes"] == open_trace(trace).read().length.sum(dtype=np.int64)
        assert row["platform"] == found.platform
        check_rates(row, found)


RATES = {"per_lookup": "lookups", "per_request": "requests"}


def check_rates(row, found):
    """Each rate of ``row`` is a total of the replay ``found`` over what its name says."""
    misses, parts = found.total("ni_misses"), {rate: row[RATES[rate]] for rate in RATES}
    assert row["misses_per_request"] == misses / row["requests"]
    assert row["misses_per_mib"] == pytest.approx(misses / (row["requested_bytes"] / 2**20))
    assert "miss_ratio" not in row or row["miss_ratio"] == misses / row["lookups"]
    assert row["cost_unpriced"] == ((found.platform and found.cost.reason) or None)
    total = found.cost.total_us()
    if found.platform is None or total is None:
        assert row["cost_us_low"] is row["cost_us_high"] is row["cost_evidence"] is None
        return
    bound = found.cost.is_lower_bound
    assert bound == (row["cost_unpriced"] is not None)
    ends = found.cost.low_ps == found.cost.high_ps
    assert row["cost_bound"] == ("at least" if bound else "exact" if ends else "range")
    assert row["cost_evidence"] == found.weakest_evidence
    ps = {"low": found.cost.low_ps, "high": None if bound else found.cost.high_ps}
    for end, whole in ps.items():
        assert row[f"cost_us_{end}"] == (None if whole is None else whole / 1e6)
        for rate, count in parts.items():
            if (name := f"cost_us_{rate}_{end}") in row:
                assert row[name] == (None if whole is None else pytest.approx(whole / 1e6 / count))
        per_byte = None if whole is None else pytest.approx(whole / 1e3 / row["requested_bytes"])
        assert row[f"cost_ns_per_byte_{end}"] == per_byte


def test_rows_stand_in_the_order_of_traces_and_grid_with_their_units(trace, tmp_path):
    other = write(tmp_path / "a.parquet", seed=2)
    assignments = ["costs.ni_check=1us,0.5us", "page_size=8KiB,none", "pin_limit=none,20"]
    what = ready(tmp_path / "o.parquet", assignments, trace, other)

    sweep(what, workers=2)

    table = pq.read_table(what.out)
    keys = ["trace", "cost_ni_check_us", "page_size_bytes", "pin_limit_pages"]
    assert list(zip(*table.select(keys).to_pydict().values(), strict=True)) == [
        (name, cost, size, limit)
        for name in ("t", "a")
        for cost in (1.0, 0.5)
        for size in (8192, 4096)  # the trace's own, where the grid says none
        for limit in (None, 20)
    ]
    pair = table.filter(table.column("trace").to_numpy() == "t").to_pylist()
    for row, cheaper in zip(pair[:4], pair[4:], strict=True):
        difference = row["cost_us_low"] - cheaper["cost_us_low"]
        assert difference == pytest.approx(0.5 * row["lookups"])
        assert row["ni_misses"] == cheaper["ni_misses"]


def test_the_table_has_the_same_bytes_for_any_number_of_workers(trace, tmp_path):
    tables = set()
    for hands in (1, 2, 5):
        what = ready(tmp_path / f"{hands}.parquet", GRIDS["utlb"], trace)
        sweep(what, hands)
        tables.add(what.out.read_bytes())

    assert len(tables) == 1
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {"1.parquet", "2.parquet", "5.parquet", "t.parquet"}


def test_columns_are_loaded_node_after_node_each_in_its_order(trace):
    whole, columns = open_trace(trace).read(), load(open_trace(trace))

    assert sum(column.nbytes for column in columns) == 21 * len(whole.node)
    assert np.all(np.diff(columns.node) >= 0)
    for node in range(3):
        here, there = columns.node == node, whole.node == node
        for name in ("pid", "receive", "address", "length"):
            assert np.array_equal(getattr(columns, name)[here], getattr(whole, name)[there])


def test_all_threads_of_a_process_share_the_columns_loaded_once(trace, tmp_path, monkeypatch):
    loaded, seen = [], set()
    monkeypatch.setattr(
        "nicscope.studies.sweep.sweeping.load", lambda it: loaded.append(load(it)) or loaded[-1]
    )
    tally = sweeping.tally
    monkeypatch.setattr(
        sweeping, "tally", lambda columns, *rest: seen.add(id(columns)) or tally(columns, *rest)
    )
    what = ready(tmp_path / "o.parquet", GRIDS["utlb"], trace)

    sweep(what, workers=4)

    assert len(loaded) == 1
    assert seen == {id(loaded[0])}


class Enough(Exception):  # noqa: N818 - nobody's error
    pass


def stop_after(count):
    def watch(done, _):
        if done >= count:
            raise Enough

    return watch


@pytest.mark.parametrize("count", [1, 23])
def test_a_sweep_that_stopped_continues_with_what_is_left(count, trace, tmp_path):
    other = write(tmp_path / "a.parquet", seed=2)
    whole = ready(tmp_path / "whole.parquet", GRIDS["utlb"], trace, other)
    sweep(whole, workers=1)
    what = ready(tmp_path / "o.parquet", GRIDS["utlb"], trace, other)
    with pytest.raises(Enough):
        sweep(what, workers=1, watch=stop_after(count))
    assert journal_path(what.out).exists()
    assert not what.out.exists()

    told, watched = [], []
    done = sweep(what, 2, watch=lambda *seen: watched.append(seen), begun=told.append)

    assert done == told[0]
    assert count <= done.found < done.replays == 48
    left = done.replays - done.found
    assert watched[-1] == (left, left)
    assert what.out.read_bytes() == whole.out.read_bytes()
    assert not journal_path(what.out).exists()


def test_a_finished_sweep_is_not_done_again_and_its_leftover_journal_goes(trace, tmp_path):
    what = ready(tmp_path / "o.parquet", ["entries=8,64"], trace)
    with pytest.raises(Enough):
        sweep(what, workers=1, watch=stop_after(1))
    leftover = journal_path(what.out).read_bytes()
    sweep(what, workers=1)
    journal_path(what.out).write_bytes(leftover)
    before = what.out.stat().st_mtime_ns

    assert sweep(what, workers=1).was_there

    assert what.out.stat().st_mtime_ns == before
    assert not journal_path(what.out).exists()


def test_the_output_of_another_grid_is_refused_with_the_difference(trace, tmp_path):
    out = tmp_path / "o.parquet"
    sweep(ready(out, ["entries=8,64"], trace), workers=1)
    before = out.read_bytes()

    with refused(StudyError, "entries", "8,64", "8,32"):
        sweep(ready(out, ["entries=8,32"], trace), workers=1)
    write(trace, seed=9)
    with refused(StudyError, "trace t"):
        sweep(ready(out, ["entries=8,64"], trace), workers=1)

    assert out.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == [out, trace]


def test_an_output_that_is_no_sweeps_and_two_traces_of_one_name_are_refused(trace, tmp_path):
    with refused(StudyError, "sweep's table"):
        sweep(ready(trace, ["entries=8"], trace), workers=1)
    for wrong in (tmp_path / "none" / "o.parquet", tmp_path):
        with pytest.raises(OutputError, match="folder"):
            sweep(ready(wrong, ["entries=8"], trace), workers=1)
    (tmp_path / "other").mkdir()
    other = write(tmp_path / "other" / "t.parquet")
    with refused(TraceError, "'t'"):
        sweep(ready(tmp_path / "o.parquet", ["entries=8"], trace, other), workers=1)


def test_a_row_that_is_wrong_leaves_nothing(trace, tmp_path):
    table = pq.read_table(trace)
    place = table.schema.get_field_index("length")
    none = pa.array([0] * len(table), pa.uint32())
    pq.write_table(table.set_column(place, table.schema.field(place), none), trace)

    with pytest.raises(TraceError, match="row 0"):
        sweep(ready(tmp_path / "o.parquet", ["entries=8"], trace), workers=1)

    assert list(tmp_path.iterdir()) == [trace]


@pytest.mark.parametrize(("error", "told"), [(MemoryError, StudyError), (OSError, OSError)])
def test_what_a_thread_meets_is_told_and_the_others_end(error, told, trace, tmp_path, monkeypatch):
    def fails(*_):
        raise error("no")

    monkeypatch.setattr(sweeping, "tally", fails)

    with pytest.raises(told):
        sweep(ready(tmp_path / "o.parquet", GRIDS["utlb"], trace), workers=3)

    assert list(tmp_path.iterdir()) == [trace]


def test_designs_that_see_the_same_pages_are_counted_in_one_pass():
    grid = ask("mini", None, ["line=1,8", "page_size=4KiB,64KiB", "entries=64,128"], many=False)

    chunks = sweeping._chunks(grid, range(grid.designs), 1)

    assert sorted(number for chunk in chunks for number in chunk) == list(range(8))
    for chunk in chunks:
        alike = {(design.line, design.page_size) for design in map(grid.design, chunk)}
        assert len(alike) == 1
    assert [len(chunk) for chunk in chunks] == [2, 2, 2, 2]
    many = ask("utlb", None, ["seed=" + ",".join(map(str, range(1000)))], many=False)
    assert max(map(len, sweeping._chunks(many, range(1000), 2))) == sweeping.CHUNK
