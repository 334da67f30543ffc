"""Every number that ``sweep`` prints, recomputed from a replay's counts and prices."""

import re
from itertools import product

import numpy as np
import pytest
from counted_anew import PLATFORMS, ROWS, Counted, assert_same, tables
from hypothesis import given
from hypothesis import strategies as st
from trace_files import write

from nicscope.cli.app import main
from nicscope.reports.wording import byte_size, per_hundred, whole
from nicscope.studies.sweep.grid import ask as ask_sweep
from nicscope.studies.sweep.sweeping import Sweep, sweep
from nicscope.studies.sweep.table import Table
from nicscope.traces.reader import open_trace
from pairwise import others_marked
from recomputed import recomputed
from suite import share


@pytest.fixture(autouse=True)
def one_line_each(monkeypatch):
    """Headings on one line, and no column left out."""
    monkeypatch.setenv("COLUMNS", "200")


GRIDS = [
    ("utlb", ["entries=4,32", "page_size=4KiB,64KiB,2MiB"]),
    ("mini", ["line=1,4", "entries=16,64"]),
    ("utlb", ["scheme=utlb,utlb-shared,interrupt", "entries=8,64"]),
    ("unet-mm-pca200", ["entries=4,16", "page_size=4KiB,8KiB"]),
]
# Each grid on two platforms, and each platform with two grids; the other pairs are long.
PAIRED = [
    (PLATFORMS[(place + more) % 4], grid) for place, grid in enumerate(GRIDS) for more in (0, 1)
]


@pytest.mark.parametrize(
    ("platform", "grid"),
    others_marked(pytest.mark.long, product(PLATFORMS, GRIDS), PAIRED),
    ids=lambda one: one if isinstance(one, str) else f"{one[0]}-{one[1][0]}",
)
def test_every_number_of_a_sweep_follows_from_counts_and_prices(platform, grid, tmp_path, capsys):
    design, axes = grid
    file = write(tmp_path / "t.parquet", count=ROWS)
    out = tmp_path / "o.parquet"
    command = ["sweep", str(file), "--design", design, "--platform", platform, "--out", str(out)]
    assert main([*command, *(word for axis in axes for word in ("--grid", axis))]) == 0
    text = capsys.readouterr().out

    trace = open_trace(file)
    size = int(trace.read().length.sum(dtype=np.int64))
    points = Sweep(ask_sweep(design, platform, axes, many=False), [("t", trace)], out).grid
    counted = [Counted(trace, points.design(point.design), platform) for point in points]
    per = "lookups" if len({one.page_size for one in counted}) == 1 else "requests"
    expected = {
        point: [
            *(axis.text(place) for axis, place in zip(points.axes, point.places, strict=True)),
            whole(one.total["ni_misses"]),
            per_hundred(100 * one.total["ni_misses"] / one.total[per]),
            one.us() or "?",
            one.us(one.total[per]) or "?",
            *([one.us(size / 1000) or "?"] if per == "requests" else []),
            byte_size(one.nic_bytes),
            byte_size(sum(one.pinned)),
        ]
        for point, one in zip(points, counted, strict=True)
    }
    for row in expected.values():  # sizes are shown with their units
        row[: len(axes)] = [shown(text, axis) for text, axis in zip(row, points.axes, strict=False)]
    found = tables(text)
    for title, rows in found.items():
        for row in rows:
            assert any(row[: len(axes)] == one[: len(axes)] for one in expected.values())
            [mine] = [one for one in expected.values() if row[: len(axes)] == one[: len(axes)]]
            assert_same(row, mine)
        assert title in ("Fewest misses", "Cheapest")
    everything = list(expected.values())
    fewest = min(one.total["ni_misses"] for one in counted)
    named = everything.index(
        next(e for e in everything if e[: len(axes)] == found["Fewest misses"][0][: len(axes)])
    )
    assert counted[named].total["ni_misses"] == fewest
    able = [one for one in counted if one.has_whole_price]
    assert ("Cheapest" in found) == bool(able)
    if able:
        first = found["Cheapest"][0][: len(axes)]
        cheapest = next(
            one for one, e in zip(counted, everything, strict=True) if e[: len(axes)] == first
        )
        assert cheapest.cost.high == pytest.approx(min(one.cost.high for one in able))
    told = re.sub(r"\s+", " ", text)
    if len(able) < len(counted):
        count = (
            "no point has"
            if not able
            else f"{len(counted) - len(able)} of {len(counted)} points have not"
        )
        assert f"{count} a whole price; ranked by misses alone: {platform} states no " in told
        for costs in {costs for one in counted for costs in one.cost.missing}:
            assert costs in told
        least = min((one.cost.high for one in able), default=None)
        may = [one for one in counted if one.cost.missing and least and one.cost.low < least]
        assert (f"{len(may)} of them may be cheaper" in told) == bool(may)


def shown(text, axis):
    return byte_size(int(text)) if axis.key == "page_size" else text


@share(0.3)
@given(
    seed=st.integers(0, 2**16),
    sizes=st.lists(
        st.sampled_from([2**n for n in range(10, 23)]), min_size=2, max_size=4, unique=True
    ),
    lines=st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=3, unique=True),
)
def test_the_page_and_line_size_named_is_the_one_whose_total_is_least(
    seed, sizes, lines, tmp_path_factory
):
    random = np.random.default_rng(seed)
    folder = tmp_path_factory.mktemp("winner")
    address = (random.integers(0, 2000, ROWS) ** 2 * 4096 // 7).tolist()
    length = (2 ** random.uniform(4, 21, ROWS)).astype(int).tolist()
    file = write(folder / "t.parquet", count=ROWS, address=address, length=length)
    axes = [f"page_size={','.join(map(str, sizes))}", f"line={','.join(map(str, lines))}"]
    axes.append("entries=32,128")
    grid = ask_sweep("mini", "utlb-prototype", [*axes, "costs.retransmission=3us"], many=False)
    what = Sweep(grid, [("t", open_trace(file))], folder / "o.parquet", kinds=False)
    sweep(what, workers=1)
    table = Table(what.out)

    trace = open_trace(file)
    counted = [Counted(trace, grid.design(number), None) for number in range(grid.designs)]
    totals = {}
    for one in counted:
        key = (one.page_size, one.design.line, one.design.entries)
        cost = recomputed(one.total, "handle", "utlb-prototype")
        totals[key] = (one.total["ni_misses"], cost.low + 3 * one.total["dropped"])
    for kind, best in enumerate((table.fewest_misses("t", 1), table.cheapest("t", 1))):
        [row] = best
        key = (row["page_size_bytes"], row["line_pages"], row["entries"])
        assert totals[key][kind] == pytest.approx(min(total[kind] for total in totals.values()))
        assert (row["ni_misses"], row["cost_us_low"]) == pytest.approx(totals[key])
    # Rates per lookup would not compare them, so there are none to be sorted by.
    assert not any(
        "lookup" in name and name != "lookups" for name in table.columns[5:] if "per" in name
    )
    assert "miss_ratio" not in table.columns
