"""What is set is what is named: in text, JSON, notebooks, tables and figures of every command."""

import json
import re

import pyarrow.parquet as pq
import pytest
from trace_files import write

from nicscope.cli.app import main
from nicscope.config.design import DELIVERY_COSTS, SCHEMES, SETTINGS, design_names, load_design
from nicscope.reports.comparison import ReplayReport
from nicscope.studies.replaying import choose_subjects, compare
from nicscope.traces.reader import open_trace
from pairwise import others_marked

# Of each setting a value that no design of the catalog has, as it is set and as JSON says it.
OTHER = {
    "area_bytes": ("32KiB", 32768),
    "entries": ("512", 512),
    "ways": ("8", 8),
    "line": ("16", 16),
    "victim_entries": ("3", 3),
    "most_valid": ("21", 21),
    "index_offset": ("false", False),
    "prefetch": ("7", 7),
    "prepin": ("5", 5),
    "pin_limit": ("901", 901),
    "replacement": ("mfu", "mfu"),
    "high_water": ("77", 77),
    "mpt_entries": ("256", 256),
    "mpt_ways": ("8", 8),
    "l1_entries": ("2048", 2048),
    "l1_ways": ("2", 2),
    "mpt_l1_entries": ("128", 128),
    "mpt_l1_ways": ("2", 2),
    "mtu": ("1KiB", 1024),
    "indirect": ("2MiB", 1 << 21),
    "registered": ("3MiB", 3 << 20),
    "seed": ("11", 11),
    "page_size": ("2KiB", 2048),
}
SMALL_PAGES = ["page_size=2KiB"]
NOT_ALONE = {"l1_shared"}  # needs l1_entries
SET = [
    (design, key)
    for design in (
        *("unet", "vmmc-static", "vmmc-interrupt", "unet-mm-pca200", "utlb", "mini", "rnic"),
    )
    for key in SCHEMES[load_design(design).scheme].uses
    if key not in NOT_ALONE
] + [(design, "page_size") for design in ("utlb-shared", "utlb-process", "unet-mm-dc21140")]


def each_once(pairs):
    """Every setting with one design, and every design with one setting or more: the rest is long.

    A setting is told by one function, whatever has it.
    """
    used = dict.fromkeys((design for design, _ in pairs), 0)
    chosen = []
    for key in dict.fromkeys(key for _, key in pairs):
        design = min((design for design, its in pairs if its == key), key=used.get)
        used[design] += 1
        chosen.append((design, key))
    chosen += [(design, "page_size") for design, times in used.items() if not times]
    return others_marked(pytest.mark.long, pairs, chosen)


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return write(tmp_path_factory.mktemp("named") / "t.parquet", count=30)


def run(capsys, *words):
    assert main([*map(str, words)]) == 0
    return capsys.readouterr().out


def named(found, key):
    """Every value that ``found`` has under ``key``, with its unit or without, however deep."""
    if isinstance(found, dict):
        units = (key, f"{key}_bytes", f"{key}_pages")
        return [value for name, value in found.items() if name in units] + [
            value for inner in found.values() for value in named(inner, key)
        ]
    return (
        [value for inner in found for value in named(inner, key)] if isinstance(found, list) else []
    )


def page_sizes(text):
    """Every size of pages that ``text`` names."""
    return set(re.findall(r"[\d.]+ [KMG]?i?B(?= pages)|(?<=pages of )[\d.]+ [KMG]?i?B", text))


def test_every_setting_is_tried():
    assert set(OTHER) == set(SETTINGS) - NOT_ALONE == {key for _, key in SET}
    for name in design_names():
        plain = load_design(name).to_json()
        assert all(plain.get(key, ...) != value for key, (_, value) in OTHER.items())


@pytest.mark.usefixtures("no_pixels")
@pytest.mark.parametrize(("design", "key"), each_once(SET))
def test_a_replay_names_what_was_set(design, key, trace, tmp_path, capsys):
    text, value = OTHER[key]
    words = ["replay", trace, "--design", design, "--set", f"{key}={text}"]

    shown = run(capsys, *words, "--out", tmp_path / "o")

    plain = json.loads((tmp_path / "o" / "results.json").read_text())
    assert set(named(plain, key)) == {value}
    assert page_sizes(shown) == ({"2 KiB"} if key == "page_size" else {"4 KiB"})


@pytest.mark.usefixtures("no_pixels")
def test_a_notebook_names_what_was_set(trace):
    report = ReplayReport(compare(open_trace(trace), choose_subjects(["utlb"], None, SMALL_PAGES)))

    assert page_sizes(report._repr_html_().split("<img")[0]) == {"2 KiB"}
    assert report.comparison.to_json()["design"]["page_size"] == 2048


@pytest.mark.parametrize(
    ("design", "key"), each_once([pair for pair in SET if pair[0] in ("utlb", "mini")])
)
def test_a_simulation_names_what_was_set(design, key, trace, tmp_path, capsys):
    text, value = OTHER[key]
    words = ["simulate", trace, "--design", design, "--set", f"{key}={text}", "--requests", 2]

    shown = run(capsys, *words, "--out", tmp_path / "o")

    plain = json.loads((tmp_path / "o" / "results.json").read_text())
    assert set(named(plain, key)) == {value}
    assert page_sizes(shown) == ({"2 KiB"} if key == "page_size" else {"4 KiB"})


@pytest.mark.parametrize(("design", "key"), each_once(SET))
def test_a_sweep_names_what_was_set(design, key, trace, tmp_path, capsys):
    text, value = OTHER[key]
    out = tmp_path / "o.parquet"
    words = ["sweep", trace, "--design", design, "--grid", f"{key}={text}", "--out", out]

    plain = json.loads(run(capsys, *words, "--json"))

    metadata = json.loads(pq.read_schema(out).metadata[b"nicscope_sweep"])
    for found in (plain, metadata, pq.read_table(out).to_pylist()):
        flat = [
            one
            for each in named(found, key)
            for one in (each if isinstance(each, list) else [each])
        ]
        assert set(flat) <= {value}, found
    assert set(named(pq.read_table(out).to_pylist(), key)) == {value}


@pytest.mark.parametrize("command", ["replay", "simulate", "sweep", "size"])
def test_a_platform_that_was_named_is_the_one_that_is_told(command, trace, tmp_path, capsys):
    words = {
        "replay": ["--design", "utlb"],
        "simulate": ["--design", "unet-mm-dc21140", "--requests", 2],
        "sweep": ["--design", "utlb", "--grid", "entries=64", "--out", tmp_path / "o.parquet"],
        "size": ["--nic-memory", "256B", "--only", "utlb"],
    }[command]
    # A simulation needs what a lookup's steps cost as well.
    platform = "dc21140-nt" if command == "simulate" else "pca200-linux"

    plain = json.loads(run(capsys, command, trace, *words, "--platform", platform, "--json"))

    assert {value for value in named(plain, "platform") if value is not None} == {platform}


def test_designs_of_several_page_sizes_side_by_side_are_each_told(trace, tmp_path, capsys):
    big = tmp_path / "big.toml"
    big.write_text(
        'scheme = "utlb"\nentries = 64\npage_size = "64KiB"\nplatform = "utlb-prototype"'
    )
    words = ["replay", trace, "--design", "utlb", "--design", big]

    shown = run(capsys, *words, "--out", tmp_path / "o")
    plain = json.loads((tmp_path / "o" / "results.json").read_text())["results"]

    small, large = (one["total"]["lookups"] for one in plain)
    assert f"{small:,} lookups of 4 KiB pages, {large:,} of 64 KiB pages" in shown
    assert [one["trace"]["page_size"] for one in plain] == [4096, 65536]
    assert [one["design"]["page_size"] for one in plain] == [4096, 65536]
    assert {one["trace"]["recorded_page_size"] for one in plain} == {4096}
    # Rates per lookup would not compare them.
    assert "NI misses per 100 requests" in shown
    assert "us per request" in shown
    assert "per lookup" not in shown
    for name in ("misses", "costs"):
        drawn = (tmp_path / "o" / f"{name}.svg").read_text()
        assert "request" in drawn
        assert "lookup" not in drawn.replace("lookup on the NIC", "")
    rates = [100 * one["total"]["ni_misses"] / one["total"]["requests"] for one in plain]
    rows = [line.split() for line in shown.splitlines() if line.startswith(("utlb ", "big "))]
    assert [float(row[1]) for row in rows[:2]] == pytest.approx(rates, abs=0.005)


@pytest.mark.usefixtures("no_pixels")
def test_a_curve_names_the_page_size_that_was_set(trace, tmp_path, capsys):
    words = ["curve", trace, "--page-size", "2KiB"]

    shown = run(capsys, *words, "--out", tmp_path / "o")
    plain = json.loads((tmp_path / "o" / "results.json").read_text())

    assert page_sizes(shown) == {"2 KiB"}
    assert set(named(plain, "page_size")) == {2048}
    assert set(pq.read_table(tmp_path / "o" / "curves.parquet")["page_size_bytes"].to_pylist()) == {
        2048
    }
    assert {one["recorded_page_size"] for one in plain["traces"]} == {4096}


def test_a_flow_names_the_costs_that_were_set(capsys):
    given, set_to = [], {}
    for place, name in enumerate(DELIVERY_COSTS):
        # Memory of a NIC is faster than its PCI.
        by_byte = 2 if name == "nic_memory_per_byte" else 9 + place
        in_bytes = name.endswith("per_byte")
        given += ["--set", f"{name}={f'{by_byte}ns/B' if in_bytes else f'{2 + place}us'}"]
        set_to[name] = 1000 * by_byte if in_bytes else (2 + place) * 1_000_000

    plain = json.loads(run(capsys, "flow", "--count", 1, *given, "--json"))

    assert plain["costs_ps"]
    for side in plain["costs_ps"].values():
        assert {name: side[name] for name in set_to} == set_to
    assert plain["overridden"] == sorted(set_to)
    assert f"{len(set_to)} set" in run(capsys, "flow", "--count", 1, *given)
