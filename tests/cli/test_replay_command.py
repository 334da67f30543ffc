"""``nicscope replay`` as a user and as a program see it."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from trace_files import write

from nicscope import __version__
from nicscope.cli.app import main
from nicscope.config.design import design_names, load_design
from nicscope.drivers.replay import COUNT_NAMES, KIND_NAMES, replay
from nicscope.traces.reader import open_trace

FILES = ["components.parquet", "counts.parquet", "designs.parquet", "results.json"]
FILES += [f"{name}.{kind}" for name in ("costs", "memory", "misses") for kind in ("png", "svg")]


@pytest.fixture
def trace(tmp_path):
    return write(tmp_path / "t.parquet")


def run(capsys, *arguments):
    assert main(["replay", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def run_json(capsys, *arguments):
    return json.loads(run(capsys, *arguments, "--json"))


def test_one_design_is_one_object_with_the_counts_of_the_driver(trace, capsys):
    found = run_json(capsys, trace, "--design", "utlb")

    [expected] = replay(open_trace(trace).batches(), [load_design("utlb")])
    keys = ["design", "trace", "total", "nodes", "cost_us", "nic_memory_bytes", "repeat"]
    assert list(found) == keys
    assert found["total"] == expected.total
    assert set(COUNT_NAMES) == set(found["total"])
    assert found["nodes"] == expected.nodes
    assert [node["node"] for node in found["nodes"]] == [0, 1]
    assert found["nic_memory_bytes"] == expected.nic_memory_bytes
    assert found["design"] == load_design("utlb").at_page_size(4096).to_json()
    assert found["trace"]["requests"] == 40
    assert found["cost_us"]["platform"] == "utlb-prototype"
    assert found["cost_us"]["per_lookup"] > 0


def test_a_replay_imports_nothing_that_it_need_not_wait_for(trace):
    program = (
        "import sys; from nicscope.cli.app import main;"
        f"main(['replay', {str(trace)!r}, '--design', 'utlb', '--json']);"
        "heavy = ('numba', 'pandas', 'pyarrow.compute', 'matplotlib', 'dask');"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
    )

    assert done.stderr == "[]\n"


def test_several_designs_are_a_list_in_the_order_asked_for(trace, capsys):
    found = run_json(capsys, trace, "--design", "utlb", "--design", "unet")

    assert [one["design"]["name"] for one in found["results"]] == ["utlb", "unet"]
    assert found["results"][1]["total"]["bytes_copied"] > 0


def test_what_repeats_the_result_does_repeat_it(trace, capsys):
    arguments = ["--design", "utlb", "--set", "pin_limit=2", "--set", "replacement=random"]
    first = run_json(capsys, trace, *arguments, "--set", "seed=5", "--platform", "utlb-prototype")

    repeat = first["repeat"]
    assert repeat["version"] == __version__
    assert len(repeat["source"]) == 64
    assert repeat["overrides"] == ["pin_limit=2", "replacement=random", "seed=5"]
    assert repeat["seed"] == 5
    assert repeat["command"][0] == "nicscope"
    assert main([*repeat["command"][1:], "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == first


def test_settings_and_a_platform_apply_to_every_design(trace, capsys):
    names = ["--design", "utlb", "--design", "mini", "--platform", "pca200-linux"]
    found = run_json(capsys, trace, *names, "--set", "entries=256")

    assert {one["cost_us"]["platform"] for one in found["results"]} == {"pca200-linux"}
    assert [one["design"]["entries"] for one in found["results"]] == [256, 256]


def test_a_design_without_a_platform_has_counts_but_no_price(trace, capsys):
    cost = run_json(capsys, trace, "--design", "via-static")["cost_us"]

    assert (cost["platform"], cost["total"], cost["lower_bound"]) == (None, None, True)
    assert {step["name"] for step in cost["unpriced"]} == {"ni_check", "registration"}


def test_without_kinds_their_counts_are_null_and_the_table_says_so(trace, capsys):
    found = run_json(capsys, trace, "--design", "utlb", "--no-kinds")
    for name, count in found["total"].items():
        assert (count is None) == (name in KIND_NAMES)

    text = run(capsys, trace, "--design", "utlb", "--no-kinds")
    assert "not compulsory" in text
    assert "conflict" not in text


def test_without_a_design_the_whole_catalog_is_replayed_in_its_order(trace, capsys):
    found = run_json(capsys, trace)

    assert [one["design"]["name"] for one in found["results"]] == design_names()


def test_without_a_design_the_text_shows_the_whole_catalog_and_what_people_ask_for(trace, capsys):
    text = run(capsys, trace)

    for name in design_names():
        assert sum(line.startswith(f"{name} ") for line in text.splitlines()) >= 3
    for word in ("compulsory", "capacity", "pins", "interrupts", "us per lookup", "pinned in"):
        assert word in text


def test_the_text_of_one_design_takes_its_time_apart(trace, capsys):
    text = run(capsys, trace, "--design", "utlb")

    for component in ("user_check", "user_pin", "ni_check", "ni_miss"):
        assert component in text


def test_what_was_rejected_is_told(trace, capsys):
    text = run(capsys, trace, "--design", "via-static", "--set", "entries=1")

    assert "via-static: " in text
    assert "rejected" in text


def test_out_holds_json_counts_and_figures_and_again_the_same_bytes(trace, capsys, tmp_path):
    folder, again = tmp_path / "deep" / "results", tmp_path / "again"
    words = [trace, "--design", "utlb", "--design", "unet", "--out"]
    text = run(capsys, *words, again)
    printed = run_json(capsys, *words, folder)

    assert {line.strip() for line in text.splitlines() if line.startswith("  ")} >= {
        str(again / name) for name in FILES
    }
    assert sorted(file.name for file in folder.iterdir()) == sorted(FILES)
    for name in FILES:
        assert (folder / name).read_bytes() == (again / name).read_bytes(), name
    assert json.loads((folder / "results.json").read_text()) == printed
    tidy = pq.read_table(folder / "counts.parquet").to_pylist()
    assert {(row["design"], row["node"], row["count"]): row["value"] for row in tidy} == {
        (one["design"]["name"], node["node"], name): value
        for one in printed["results"]
        for node in one["nodes"]
        for name, value in node.items()
        if name != "node"
    }


def test_a_bundled_trace_is_found_by_its_name(trace, capsys, monkeypatch):
    bundled = SimpleNamespace(bundled_traces=lambda: {"small": trace})
    monkeypatch.setitem(sys.modules, "nicscope.traces.bundled", bundled)

    assert run_json(capsys, "bundled:small", "--design", "utlb")["trace"]["requests"] == 40


@pytest.mark.usefixtures("no_pixels")
def test_the_demo_shows_every_bundled_trace_and_lists_its_figures(
    trace, capsys, monkeypatch, tmp_path
):
    bundled = SimpleNamespace(bundled_traces=lambda: {"one": trace, "two": trace})
    monkeypatch.setitem(sys.modules, "nicscope.traces.bundled", bundled)
    folder = tmp_path / "shown"

    assert main(["demo", "--out", str(folder)]) == 0

    text = capsys.readouterr().out
    for name in ("one", "two"):
        assert sorted(file.name for file in (folder / name).iterdir()) == sorted(FILES)
        assert str(folder / name / "misses.png") in text
    assert text.count("\n  nicscope ") == 3
