"""``nicscope apps``: parallel programs, what they say of themselves, and the traces they leave."""

import json

import numpy as np
import pytest

import nicscope as ns
from nicscope.cli import app
from nicscope.interfaces import Faults
from nicscope.studies.applications import APPLICATIONS
from nicscope.traces.reader import open_trace
from nicscope.traces.summary import summarize
from refusals import refused_command

SMALL = ["apps", "run", "fft", "--size", "1K", "--nodes", "2", "--processes", "2"]


def said(arguments, capsys, status=0):
    assert app.main([str(each) for each in arguments]) == status
    return capsys.readouterr()


def test_a_programs_requests_are_a_trace(tmp_path, capsys):
    out = tmp_path / "fft.parquet"

    text = said([*SMALL, "--out", out], capsys).out

    assert "fft of 1,024 points gives the right result with 4 processes on 2 nodes." in text
    found = summarize(open_trace(out))
    told = json.loads(said([*SMALL, "--json"], capsys).out)
    assert found.requests == sum(each["requests"] for each in told["traffic"]) > 0
    assert found.processes == 5  # one answers at barriers for the first node
    assert found.metadata.origin["problem_size"] == "1,024 points"
    assert told["printed"] is None


def test_the_first_distribution_is_in_it_only_if_asked_for(tmp_path, capsys):
    rows = []
    for more in ([], ["--with-initial"]):
        out = tmp_path / f"{len(more)}.parquet"
        said([*SMALL, "--out", out, *more], capsys)
        rows.append(summarize(open_trace(out)).requests)
    words = ["--points", "1K", *SMALL[5:]]  # another word for a size
    told = json.loads(said([*SMALL[:3], *words, "--json"], capsys).out)
    copies = told["initial_copies"]

    assert told["size"] == "1,024 points"
    assert rows[1] - rows[0] == 2 * copies > 0  # a request, and the page


def test_skewed_processes_are_another_run_by_the_seed_and_the_trace_says_so(tmp_path, capsys):
    def run(*more):
        out = tmp_path / f"{len(list(tmp_path.iterdir()))}.parquet"
        told = said(["apps", "run", "radix", "--size", "1K", "--json", "--out", out, *more], capsys)
        return json.loads(told.out)["milliseconds"], open_trace(out).metadata.origin

    (plain, plain_origin), (skewed, origin), (again, _), (other, _) = (
        run(), run("--skew", "2000"), run("--skew", "2000"), run("--skew", "2000", "--seed", "5")
    )  # fmt: skip

    assert plain < skewed == again != other
    assert "skew_us" not in plain_origin
    assert origin["skew_us"] == 2000


def test_private_copies_and_another_input_are_other_runs(capsys):
    def run(*more):
        return json.loads(
            said(["apps", "run", "radix", "--size", "1K", "--json", *more], capsys).out
        )

    shared, private, other = run(), run("--private"), run("--seed", "5")

    assert private["fetches"] > shared["fetches"]
    assert private["placement"]["are_copies_private"]
    assert other["diff_bytes"] != shared["diff_bytes"]
    assert run() == shared


def test_every_program_is_listed(capsys):
    listed = json.loads(said(["apps", "list", "--json"], capsys).out)
    text = said(["apps", "list"], capsys).out

    assert len(listed) == 9
    for each in listed:
        assert each["name"] in text
        assert each["usual_size"] in text
        assert (each["paper_size"] or "") in text


@pytest.mark.long
@pytest.mark.compiled
@pytest.mark.parametrize("name", [*APPLICATIONS])
def test_every_program_runs_at_its_usual_size(name, capsys):
    told = json.loads(said(["apps", "run", name, "--json"], capsys).out)

    assert told["fetches"] > 0
    assert told["printed"] is None
    assert len(told["traffic"]) == 4


def test_a_program_on_one_node_says_that_nothing_crosses_a_network_and_leaves_no_trace(
    tmp_path, capsys
):
    words = ["apps", "run", "fft", "--nodes", "1", "--processes", "1", "--size", "64"]
    assert "Nothing crosses a network." in said(words, capsys).out
    out = tmp_path / "one.parquet"

    refused_command(capsys, [*SMALL[:5], "--nodes", "1", "--out", out], "one node")
    assert not out.exists()


def test_times_rise_within_a_node(tmp_path, capsys):
    out = tmp_path / "fft.parquet"
    said([*SMALL, "--out", out], capsys)

    batches = list(open_trace(out).batches())
    for node in (0, 1):
        times = np.concatenate([batch.time_ns[batch.node == node] for batch in batches])
        assert (np.diff(times) >= 0).all()


def test_the_library_finds_what_the_command_prints(capsys):
    printed = json.loads(said([*SMALL, "--json"], capsys).out)

    found = ns.run_app("fft", "1K", nodes=2, processes=2)

    assert json.loads(json.dumps(found.as_json())) == printed
    assert found.table().column("requests").to_pylist() == [
        each["requests"] for each in printed["traffic"]
    ]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"name": "ff"}, "did you mean 'fft'"),
        ({"nodes": 0}, "nodes must be at least 1, got 0"),
        ({"processes": 2.0}, "processes must be a whole number"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
    ],
)
def test_a_wrong_call_of_the_library_is_one_line(wrong, told):
    with pytest.raises(ns.NicscopeError, match=told):
        ns.run_app(**{"name": "fft", "size": "4K", **wrong})


def test_copies_that_do_not_fit_are_refused_before_anything_runs(monkeypatch, capsys):
    monkeypatch.setattr("nicscope.memory_limit.available_bytes", lambda: 1 << 20)

    refused_command(capsys, ["apps", "run", "fft"], "fft", "65,536 points", "4 copies")


def test_a_program_trace_stands_beside_that_of_the_requests(capsys, tmp_path):
    out = tmp_path / "fft.parquet"

    told = said([*SMALL, "--out", out], capsys).out

    assert str(tmp_path / "fft.program.parquet") in told.replace("\n", "")
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["fft.parquet", "fft.program.parquet"]
    timing = ["simulate", tmp_path / "fft.program.parquet", "--design", "mini"]
    assert "speed-up" in said(timing, capsys).out
    said([*SMALL, "--out", out], capsys)  # both are ours to replace


def test_a_program_trace_is_none_of_ours_to_put_where_another_file_is(capsys, tmp_path):
    (tmp_path / "fft.program.parquet").write_text("precious")

    refused_command(capsys, [*SMALL, "--out", tmp_path / "fft.parquet"], "fft.program.parquet")

    assert [each.name for each in tmp_path.iterdir()] == ["fft.program.parquet"]
    assert (tmp_path / "fft.program.parquet").read_text() == "precious"


ON_MACHINES = ["apps", "run", "radix", "--size", "1K", "--nodes", "2", "--processes", "2"]


@pytest.mark.compiled
@pytest.mark.parametrize("on", ["vmmc", "mini", "unet"])
def test_a_program_on_simulated_machines_says_what_their_nics_did(on, capsys):
    faults = ["--faults", "loss=0.02", "--faults", "seed=3"]
    text = said([*ON_MACHINES, "--on", on, *faults], capsys).out
    told = json.loads(said([*ON_MACHINES, "--on", on, *faults, "--json"], capsys).out)

    assert "radix of 1,024 keys gives the right result with 4 processes on 2 nodes, in" in text
    assert told["on"] == on
    assert told["milliseconds"] > 0
    assert told["fetches"] > 0
    assert told["report"]["total"]["received"]["lost"] > 0
    assert len(told["report"]["nodes"]) == 2


@pytest.mark.compiled
def test_the_library_runs_programs_on_machines():
    found = ns.run_app("radix", "1K", nodes=2, processes=1, on="miNI", faults="loss=0.02")
    again = ns.run_app("radix", "1K", nodes=2, processes=1, on="mini", faults=Faults(loss=0.02))

    assert found.as_json() == again.as_json()
    assert found.table().num_rows == 2


@pytest.mark.compiled
def test_a_link_that_dies_ends_the_command_in_one_line(capsys):
    dies = ["--on", "vmmc", "--faults", "link=1@2500"]

    refused_command(capsys, [*ON_MACHINES, *dies], "link 1", "2,500.0 us")
