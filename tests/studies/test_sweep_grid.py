"""What a grid varies, and which design and platform each of its points is."""

import pytest

from nicscope.errors import StudyError
from nicscope.memory.replacement import Replacement
from nicscope.studies.sweep.grid import ask
from nicscope.studies.workers import worker_count
from refusals import refused


def grid_of(*assignments, design="utlb", platform=None, many=False):
    return ask(design, platform, assignments, many=many)


def test_the_last_key_varies_fastest():
    grid = grid_of("entries=64,128", "ways=1,2,4")

    designs = [grid.design(point.design) for point in grid]

    assert [(design.entries, design.ways) for design in designs] == [
        (entries, ways) for entries in (64, 128) for ways in (1, 2, 4)
    ]
    assert [point.number for point in grid] == list(range(6))


def test_points_that_differ_in_prices_alone_share_a_design():
    grid = grid_of("costs.ni_check=1us,2us", "entries=64,128", "costs.interrupt=5us,7us,9us")

    assert (grid.size, grid.designs, grid.pricings) == (12, 2, 6)
    points = list(grid)
    assert {point.design for point in points} == {0, 1}
    for point in points:
        platform = grid.platform(point.pricing)
        assert platform.costs["ni_check"].low_ps == (1 + point.places[0]) * 10**6
        assert platform.costs["interrupt"].low_ps == (5 + 2 * point.places[2]) * 10**6
        assert grid.design(point.design).entries == 64 << point.places[1]


def test_values_have_units_words_and_switches():
    grid = grid_of("page_size=4KiB,2MiB,none", "replacement=lru,random", "index_offset=true,false")

    assert {axis.column: axis.values for axis in grid.axes} == {
        "page_size_bytes": (4096, 2 << 20, None),
        "replacement": ("lru", "random"),
        "index_offset": (True, False),
    }
    last = grid.design(grid.designs - 1)
    assert (last.page_size, last.index_offset) == (None, False)
    assert last.replacement is Replacement.RANDOM


def test_every_setting_of_a_design_can_be_swept():
    utlb = grid_of("entries=64", "ways=1,2", "prefetch=1,4", "prepin=1,8", "pin_limit=99,none")
    assert [axis.column for axis in utlb.axes][3:] == ["prepin_pages", "pin_limit_pages"]
    assert grid_of("victim_entries=0,64", design="unet-mm-pca200").size == 2
    assert grid_of("line=8,64", "high_water=4096", design="mini").axes[0].column == "line_pages"
    assert grid_of("area_bytes=64KiB,1MiB", design="unet").axes[0].values == (65536, 1 << 20)
    assert grid_of("seed=1,2,3", "replacement=random").designs == 3


def test_schemes_and_platforms_can_be_swept_and_costs_with_them():
    grid = grid_of("scheme=utlb,interrupt", "entries=64,128")
    schemes = [grid.design(number).scheme.value for number in range(4)]
    assert schemes == ["utlb", "utlb", "interrupt", "interrupt"]

    grid = grid_of("platform=utlb-prototype,linux-host", "costs.ni_check=3us")

    found = [grid.platform(point.pricing) for point in grid]
    assert [platform.name for platform in found] == ["utlb-prototype", "linux-host"]
    assert {platform.costs["ni_check"].low_ps for platform in found} == {3_000_000}


def million():
    listed = ",".join(str(count) for count in range(1, 1001))
    return [f"prepin={listed}", "costs.ni_check=" + ",".join(f"{n}us" for n in range(1000))]


def test_a_million_points_are_asked_about():
    with refused(StudyError, "1,000,000 points", "--yes"):
        grid_of(*million())

    assert grid_of(*million(), many=True).size == 1_000_000
    seeds = ",".join(str(seed) for seed in range(101))
    with refused(StudyError, "10,000,000"):
        grid_of(*million(), f"seed={seeds}", many=True)


def test_costs_need_a_platform():
    assert grid_of("costs.copy_start=1us", design="unet", platform="linux-host").size == 1
    with pytest.raises(StudyError, match="one of them"):
        grid_of("platform=linux-host", platform="linux-host")


def test_workers_are_at_least_one_and_none_beside_a_scheduler():
    assert worker_count(None, None) >= 1
    assert worker_count(3, None) == 3
    for wrong in (0, -1, 100_000):
        with pytest.raises(StudyError, match="--workers"):
            worker_count(wrong, None)
    with pytest.raises(StudyError, match="--workers"):
        worker_count(2, "tcp://127.0.0.1:8786")
