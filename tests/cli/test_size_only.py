"""``nicscope size --only``, and what ``size`` and ``sweep`` say before any table."""

import json

import pyarrow.parquet as pq
import pytest
from trace_files import write

from nicscope.cli.app import main
from nicscope.errors import StudyError
from nicscope.reports.wording import significant
from nicscope.studies.sizing import PAGE_SIZES, ask
from refusals import refused


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return write(tmp_path_factory.mktemp("size") / "t.parquet", count=40)


def run(capsys, *arguments):
    assert main([*map(str, arguments)]) == 0
    return capsys.readouterr().out


def sizing(capsys, trace, *options):
    found = json.loads(run(capsys, "size", trace, "--nic-memory", "1K", *options, "--json"))
    return found["sizings"][0]


def text(capsys, trace, *options):
    return " ".join(run(capsys, "size", trace, "--nic-memory", "1K", *options).split())


def test_only_a_family_sizes_it_as_when_all_are_and_nothing_else(trace, capsys):
    every = sizing(capsys, trace, "--only", "utlb", "--only", "interrupt", "--only", "static")
    names = ("utlb", "interrupt")

    alone = sizing(capsys, trace, "--only", "utlb", "--only", "interrupt")

    assert [one["family"] for one in alone["families"]] == ["interrupt", "utlb"]
    assert alone["families"] == [one for one in every["families"] if one["family"] in names]
    assert alone["designs_replayed"] < every["designs_replayed"]
    assert [one["family"] for one in every["families"]] == ["static", "interrupt", "utlb"]


def test_only_page_sizes_replays_no_family_and_says_what_all_would(trace, capsys):
    asked = ["--only", "page-sizes", "--page-size", "4K,2M"]
    both = sizing(capsys, trace, *asked, "--only", "static")

    alone = sizing(capsys, trace, *asked)

    assert (alone["families"], alone["designs_replayed"]) == ([], 0)
    assert alone["page_sizes"] == both["page_sizes"]
    assert [one["family"] for one in both["families"]] == ["static"]


@pytest.mark.usefixtures("no_pixels")
def test_only_page_sizes_has_files_too(trace, capsys, tmp_path):
    text(capsys, trace, "--only", "page-sizes", "--out", tmp_path / "o")

    assert {path.name for path in (tmp_path / "o").iterdir()} == {
        "results.json", "size.png", "size.svg", "sizes.parquet",
    }  # fmt: skip


def test_page_sizes_alone_need_no_sizes_and_families_refuse_them():
    assert ask("1K", only=[PAGE_SIZES]).page_sizes == (4096, 2 << 20, 1 << 30)
    with refused(StudyError, "--only page-sizes"):
        ask("1K", only=["utlb"], page_sizes="2M")
    with refused(StudyError, "'utbl'", "'utlb'"):
        ask("1K", only=["utbl"])


def test_the_first_sentence_is_of_page_sizes_in_all(trace, capsys):
    asked = ["--only", "page-sizes", "--page-size", "4K,2M"]
    small, large = sizing(capsys, trace, *asked)["page_sizes"]

    said = text(capsys, trace, *asked)

    entries = large["entries_beyond_which_nothing_is_gained"]
    assert large["ni_misses"] < small["ni_misses"]
    assert (
        f"2 MiB pages: {small['ni_misses']} misses with pages of 4 KiB become "
        f"{large['ni_misses']}; more than {entries} entries gain nothing; they pin " in said
    )


@pytest.mark.parametrize("page_size", [4096, 2 << 20])
def test_more_entries_than_are_enough_gain_nothing_and_fewer_lose(trace, capsys, page_size):
    asked = ["--only", "page-sizes", "--page-size", str(page_size)]
    [one] = sizing(capsys, trace, *asked)["page_sizes"]
    enough = one["entries_beyond_which_nothing_is_gained"]
    curve = ["curve", trace, "--page-size", page_size, "--ways", "1,2,4,8,16", "--json"]

    [found] = json.loads(run(capsys, *curve, "--entries", "1..512"))["curves"]

    least = min(point["ni_misses"] for point in found["set_associative"])
    assert enough == min(
        point["entries"] for point in found["set_associative"] if point["ni_misses"] == least
    )


def test_the_first_sentence_names_the_cheapest_family_and_what_twice_the_memory_saves(
    trace, capsys
):
    asked = ["--only", "utlb", "--only", "pinned", "--platform", "utlb-prototype"]
    found = sizing(capsys, trace, *asked)
    [_, utlb] = found["families"]

    said = text(capsys, trace, *asked)

    assert found["cheapest_family"] == "utlb"
    us = utlb["best"]["us_per_lookup"]
    assert (
        f"Cheapest within 1 KiB of NIC memory: utlb ({utlb['best']['design']['entries']} " in said
    )
    assert f"{significant(us)} us per lookup" in said
    assert "; it pins " in said


def test_what_has_no_whole_price_is_not_called_the_cheapest_but_told_by_its_misses(trace, capsys):
    asked = ["--only", "handle", "--only", "pinned", "--platform", "utlb-prototype"]

    said = text(capsys, trace, *asked)
    found = sizing(capsys, trace, *asked)

    assert "Cheapest within 1 KiB of NIC memory: pinned (" in said
    assert "handle, of which not all is priced, may cost less" in said
    assert {one["family"]: one["ranked_by"] for one in found["families"]} == {
        "pinned": "cost",
        "handle": "misses",
    }
    assert found["cheapest_family"] is None


def test_without_a_platform_misses_are_compared_and_those_without_any_named(trace, capsys):
    said = text(capsys, trace, "--only", "handle", "--only", "utlb", "--only", "pinned")

    assert "Within 1 KiB of NIC memory, pinned never misses on the NIC; of the others " in said


def test_a_sweep_of_page_sizes_is_won_by_totals_and_says_so_first(tmp_path, capsys):
    pages = [(i * 7) % 40 for i in range(400)]
    long = write(
        tmp_path / "t.parquet",
        count=400,
        address=[4096 * (512 * (page % 3) + page) for page in pages],
        length=[4096 * (1 + 8 * (page % 5 == 0)) for page in pages],
    )
    out = tmp_path / "o.parquet"
    grid = ["--design", "utlb", "--grid", "page_size=4K,2 MiB", "--grid", "entries=2,8"]

    said = run(capsys, "sweep", long, *grid, "--out", out)

    rows = pq.read_table(out).to_pylist()
    best = min(rows, key=lambda row: row["ni_misses"])
    least_rate = min(rows, key=lambda row: row["ni_misses"] / row["lookups"])
    assert best["page_size_bytes"] == 2 << 20
    first = said.splitlines()[2]
    assert first.startswith(
        f"Fewest misses: page_size 2 MiB, entries {best['entries']}, {best['ni_misses']} in all"
    )
    assert least_rate is not best or "per 100 requests" in said
