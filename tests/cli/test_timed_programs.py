"""``nicscope simulate`` of a program trace: what it prints, and what it refuses."""

import json
from pathlib import Path

import pytest

import nicscope as ns
from nicscope.cli.app import main
from nicscope.config.design import design_names
from nicscope.errors import SimulationError
from nicscope.traces.programs.schema import Operation, ProgramMetadata
from nicscope.traces.programs.writer import ProgramBuilder, write_program
from refusals import refused, refused_command

PAGE = 4096


def made(nodes=(0, 1), pages=3, left_out=()):
    """Every process computes, fetches pages, takes a lock in turn, and comes to a barrier."""
    what = {"memory_bytes": 64 * PAGE, "program": "toy", "left_out": [*left_out]}
    trace = ProgramBuilder(ProgramMetadata(nodes_of_processes=[*nodes], **what))
    for process, node in enumerate(nodes):
        home = (node + 1) % (nodes[-1] + 1)
        trace.add(process, Operation.COMPUTE, duration_ns=250_000)
        for page in range(pages):
            trace.add(process, Operation.FETCH, peer=home, address=page * PAGE, length=PAGE)
        trace.add(process, Operation.LOCK, name=1)
        trace.add(process, Operation.UNLOCK, name=1)
        trace.add(process, Operation.DEPOSIT, peer=home, address=8, length=40)
        trace.add(process, Operation.BARRIER)
    return trace.trace()


@pytest.fixture
def path(tmp_path):
    where = tmp_path / "toy.program.parquet"
    write_program(where, made())
    return str(where)


def as_json(words, capsys):
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_programs_time_by_what_it_went_into_and_parts_of_each_process_add_up(
    path, capsys, tmp_path
):
    assert main(["simulate", path, "--design", "utlb", "--out", str(tmp_path / "o")]) == 0

    said = capsys.readouterr().out
    assert "toy.program.parquet: 16 operations, 2 processes on 2 nodes, 4 KiB pages" in said
    for words in ("The program takes", "speed-up", "ms of each process", "us per miss"):
        assert words in said
    [found] = json.loads((tmp_path / "o" / "results.json").read_text())["results"]
    assert found["sequential_us"] == 500
    assert found["speed_up"] == pytest.approx(500 / found["elapsed_us"])
    for process in found["processes"]:
        assert sum(process["parts_us"].values()) == pytest.approx(found["elapsed_us"])
        assert process["parts_us"]["compute"] == 250
        assert process["operations"]["fetch"] == 3
    assert found["parts_us"]["fetch"] > 0
    assert found["misses"]["count"] == found["misses"]["kept"] > 0
    assert sum(node["counts"]["lookups"] for node in found["nodes"]) == found["total"]["lookups"]


def test_designs_side_by_side_and_apart_are_the_same(path, capsys):
    together = as_json(["simulate", path, "--design", "utlb", "--design", "mini"], capsys)
    apart = as_json(["simulate", path, "--design", "mini"], capsys)

    assert together["results"][1] == apart["results"][0]


def test_all_of_the_catalog_where_none_is_named(path, capsys):
    found = as_json(["simulate", path], capsys)

    untimed = {"rnic", "via-static"}
    assert {each["design"]["name"] for each in found["results"]} == set(design_names()) - untimed
    assert [line.split(":")[0] for line in found["skipped"]] == ["rnic", "via-static"]


def test_settings_and_platforms_apply(path, capsys):
    words = ["simulate", path, "--design", "utlb"]
    usual = as_json(words, capsys)["results"][0]
    slow = "utlb-prototype@ni_mhz=16"
    small = as_json([*words, "--set", "entries=1", "--platform", slow], capsys)

    assert small["results"][0]["total"]["ni_misses"] > usual["total"]["ni_misses"]
    assert small["results"][0]["elapsed_us"] > usual["elapsed_us"]


def test_what_a_trace_leaves_out_is_told(tmp_path, capsys):
    where = tmp_path / "t.program.parquet"
    write_program(where, made(left_out=["the weather"]))

    assert main(["simulate", str(where), "--design", "vmmc-static"]) == 0
    assert "the weather" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--requests", "3"], ["--timed"], ["--window", "4"]])
def test_options_of_request_traces_are_refused(path, words, capsys):
    refused_command(capsys, ["simulate", path, "--design", "utlb", *words], words[0], "request")


def test_a_program_that_does_not_end_is_one_line(tmp_path, capsys):
    trace = ProgramBuilder(ProgramMetadata(nodes_of_processes=[0, 1], memory_bytes=64))
    trace.add(0, Operation.RECEIVE, peer=1, name=5, length=8)
    trace.add(1, Operation.COMPUTE, duration_ns=10)
    where = tmp_path / "t.program.parquet"
    write_program(where, trace.trace())

    facts = ("process 0, row 0", "RECEIVE of tag 5", "process 1")
    refused_command(capsys, ["simulate", where, "--design", "utlb"], *facts)


def test_a_way_that_programs_are_not_timed_over_is_one_line(path, capsys):
    words = ["simulate", path, "--design", "vmmc-static", "--set", "way=edt"]

    refused_command(capsys, [*words, "--platform", "mini-cluster"])


def test_another_name_holds_a_program_as_well(path, tmp_path, capsys):
    other = tmp_path / "other.parquet"
    other.write_bytes(Path(path).read_bytes())

    same = as_json(["simulate", str(other), "--design", "utlb"], capsys)

    assert same["results"] == as_json(["simulate", path, "--design", "utlb"], capsys)["results"]


def test_the_library_takes_a_path_and_a_trace(path):
    by_path, by_trace = ns.simulate(path, "utlb"), ns.simulate(made(), "utlb")

    assert by_path.as_json()["results"] == by_trace.as_json()["results"]
    assert by_path.table("designs").num_rows == 1
    [found] = by_path.found.found
    assert sum(by_path.table("times")["part_ps"].to_pylist()) == 2 * found.elapsed_ps
    assert "<table" in by_path._repr_html_()
    with refused(SimulationError, "--window"):
        ns.simulate(path, "utlb", window=2)
