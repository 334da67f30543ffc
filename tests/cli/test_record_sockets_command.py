"""``nicscope apps record-sockets``: real programs, recorded, and what the trace says of them."""

import sys

import numpy as np
import pytest

import nicscope as ns
from nicscope.traces.reader import open_trace
from refusals import refused_command

PAGE = 4096
PAGES = 16
COMMAND = ["apps", "record-sockets", "--users", "4", "--seconds", "1", "--receive-pages", "16"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A trace, and the report of its session."""
    path = tmp_path_factory.mktemp("sockets") / "sockets.parquet"
    try:
        report = ns.record_sockets(path, users=4, seconds=1, receive_pages=PAGES)
    except ns.RecordError as error:
        pytest.skip(f"programs may not be recorded here: {error}")
    return path, report


@pytest.mark.requirement("UM-84")
def test_a_session_is_a_trace_of_two_machines(recorded):
    path, report = recorded
    trace = open_trace(path)
    requests = trace.read()
    told = report.as_json()

    assert set(requests.node) == {0, 1}
    assert told["rows"] == len(requests.length)
    by_kind = {(each["node"], each["kind"]): each for each in told["groups"]}
    assert {key: each["processes"] for key, each in by_kind.items()} == {
        (0, "shell"): 2,
        (0, "web"): 1,
        (0, "mail"): 1,
        (1, "shell"): 2,  # one for each who logs in
        (1, "web"): 1,
        (1, "mail"): 1,
    }
    for kind in ("shell", "web", "mail"):
        users, servers = by_kind[0, kind], by_kind[1, kind]
        assert users["bytes_sent"] == servers["bytes_received"] > 0
        assert users["bytes_received"] == servers["bytes_sent"] > 0
        assert users["connections"] == servers["connections"]
    origin = trace.metadata.origin
    numbers = {pid for pids in origin["users"].values() for pid in pids}
    assert set(requests.pid[requests.node == 0]) == numbers
    assert "--users 4 --seconds 1 --seed 0 --receive-pages 16" in origin["command"]


@pytest.mark.requirement("UM-84")
def test_each_process_receives_into_its_pages_in_turn(recorded):
    requests = open_trace(recorded[0]).read()

    for pid in np.unique(requests.pid):
        received = requests.address[(requests.pid == pid) & (requests.receive == 1)]
        assert (received % PAGE == 0).all()
        assert received.size > PAGES
        first = received[:PAGES]
        assert len(np.unique(first)) == PAGES
        assert (received.max() - received.min()) // PAGE == PAGES - 1
        if (requests.node[requests.pid == pid] == 0).all():  # of servers threads take turns too
            assert (received == np.resize(first, received.size)).all()


def test_the_summary_says_that_each_byte_arrived(recorded):
    path, report = recorded
    moved = int(open_trace(path).read().length.sum(dtype=np.int64)) // 2

    assert f"each of the {moved:,} bytes that were sent arrived" in " ".join(report.summary())


@pytest.mark.parametrize("status", [1, 2])
def test_a_session_that_fails_says_why_in_one_line(status, capsys, tmp_path, monkeypatch):
    program = f"import sys; print('nicscope: no luck', file=sys.stderr); sys.exit({status})"
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{program}"\n')
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))

    out = ["--out", tmp_path / "sockets.parquet"]
    refused_command(capsys, [*COMMAND, *out], "session was not recorded", "no luck")

    assert not (tmp_path / "sockets.parquet").exists()
