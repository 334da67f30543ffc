"""What programs ask of libibverbs, recorded: of a card that is a stub, and of the live device."""

from __future__ import annotations

import gzip
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest
from live_clients import free_port, needs

from nicscope.cli.app import main
from nicscope.live.build import HERE, VERBS, compiler
from nicscope.live.entries import ENTRY, STAGED, Kind, entries_of
from nicscope.studies.verbs_recording import Conversion, environment_of
from nicscope.traces.reader import open_trace

HERE_TOO = Path(__file__).parent
STRICT = ("-O2", "-Wall", "-Wextra", "-Werror", f"-I{HERE}")


class Recorded(NamedTuple):
    status: int
    said: str
    rows: list  # of dicts


@pytest.fixture(scope="session")
def asking(libraries, tmp_path_factory):  # noqa: ARG001 - which skips where there is no compiler
    """The program of ``asking.c``, beside the library that it loads."""
    folder = tmp_path_factory.mktemp("stub")
    card, program = folder / VERBS, folder / "asking"
    versions = folder / "versions"
    versions.write_text("IBVERBS_1.1 { global: *; };\n")
    words = [compiler(), *STRICT, "-fPIC", "-shared", str(HERE_TOO / "stub_card.c")]
    words.append(f"-Wl,--version-script={versions}")
    subprocess.run([*words, f"-Wl,-soname,{VERBS}", "-o", str(card)], check=True)
    words = [compiler(), *STRICT, str(HERE_TOO / "asking.c"), str(card), "-lpthread"]
    subprocess.run([*words, f"-Wl,-rpath,{folder}", "-o", str(program)], check=True)
    return program


@pytest.fixture
def record(tmp_path, asking):
    """Records the stub's program, as a command of its own, since it waits for every child."""

    def recorded(*words, output="verbs.parquet", program=asking):
        path = tmp_path / output
        command = [sys.executable, "-m", "nicscope", "record", "--verbs", "-o", str(path), "--"]
        done = subprocess.run(
            [*command, str(program), *map(str, words)], capture_output=True, text=True, check=False
        )
        rows = (
            pq.read_table(path).to_pylist() if path.suffix == ".parquet" and path.exists() else []
        )
        return Recorded(done.returncode, done.stderr, rows)

    return recorded


def of(rows, *ops):
    return [each for each in rows if each["op"] in ops]


def test_rows_are_what_the_program_asked_and_what_came_of_it(record):
    found = record("some")

    first, *_, last = found.rows
    base, end = first["address"], first["address"] + (1 << 16)
    assert (first["op"], first["length"], last["op"], last["length"]) == (
        *("register", 1 << 16, "deregister", 1 << 16),
    )
    assert first["rights"] == "local_write|remote_write|remote_read"
    told = [(each["op"], each["address"] - base, each["length"]) for each in found.rows[1:-1]]
    assert told == [
        ("recv", 0, 1000), ("recv", 8192, 500),  # of 1500 bytes
        ("recv", 16, 200),  # all in its first piece
        ("send", 128, 1500), ("send", 256, 100), ("send", 256 + 4096, 100),
        ("serve_write", 64, 32),  # inline: the NIC reads no memory for it
        ("read", 0, 64), ("serve_read", 64, 64), ("read", 4096, 64), ("serve_read", 128, 64),
        ("read", 8192, 64), ("serve_read", 192, 64),
    ]  # fmt: skip
    assert all(each["address"] + each["length"] <= end for each in found.rows)
    assert {each["node"] for each in found.rows} == {0}  # it is its own peer
    assert {each["peer"] for each in found.rows[1:-1]} == {0}
    assert found.status == 0
    assert "1 requests took their bytes with them (inline)" in found.said
    assert "1 requests had none" in found.said
    assert "1 requests failed (rem_access_err 1)" in found.said


def test_metadata_says_what_was_seen_and_queue_pairs_by_number(record, tmp_path):
    record("some")
    metadata = open_trace(tmp_path / "verbs.parquet").metadata

    assert metadata.observed["completions"] == 8
    assert metadata.observed["failed"] == {"rem_access_err": 1}
    [pair] = metadata.connections
    assert (pair["kind"], pair["sends"], pair["receives"], pair["peer"]) == ("rc", 11, 12, 0)
    assert pair["local"] == pair["remote"] == "0000:0000:0000:0000:0000:0000:0000:0009 0x100"
    assert metadata.origin["recorder"].startswith("nicscope record --verbs")


def test_extended_calls_are_seen_and_what_is_aborted_is_not(record):
    found = record("extended", 70)  # more than one entry of it is built at a time

    written = of(found.rows, "write")
    assert [each["length"] for each in written] == [300, 100, 200] * 70
    assert len(of(found.rows, "serve_write")) == 0  # nothing told this pair its peer
    assert "completions: 140" in found.said


def test_calls_that_are_looked_up_by_version_are_seen(record):
    found = record("looked_up", 20)

    assert found.status == 0
    assert [each["length"] for each in of(found.rows, "register")] == [1 << 16] * 2
    assert len(of(found.rows, "write")) == 20


def test_every_thread_is_recorded_in_its_order(record):
    count = 3 * STAGED
    found = record("threads", count)

    written = of(found.rows, "write")
    by_thread = {}
    for each in written:
        by_thread.setdefault(each["tid"], []).append(each["time_ns"])
    assert [len(each) for each in by_thread.values()] == [count] * 4
    assert all(each == sorted(each) for each in by_thread.values())


def test_a_forked_child_is_a_process_of_its_own(record):
    found = record("fork", 2000)

    counts = {}
    for each in of(found.rows, "write"):
        counts[each["pid"]] = counts.get(each["pid"], 0) + 1
    assert sorted(counts.values()) == [4000, 4000]


@pytest.mark.parametrize(
    ("how", "status", "count"), [("_exit", 3, 1500), ("kill", 137, 5000), ("left", 7, 50)]
)
def test_however_it_ends_all_of_it_is_there(record, how, status, count):
    found = record(how, count)

    assert found.status == status
    assert len(of(found.rows, "write")) == count


def test_a_trace_of_verbs_replays(record, tmp_path, capsys):
    record("threads", 50)

    assert main(["replay", str(tmp_path / "verbs.parquet"), "--design", "rnic"]) == 0
    assert main(["rdma", "cache", str(tmp_path / "verbs.parquet")]) == 0
    assert main(["rdma", "descriptors", str(tmp_path / "verbs.parquet")]) == 0
    assert capsys.readouterr().out


def test_any_format_that_traces_have(record, tmp_path):
    record("some", output="verbs.csv.gz")
    text = gzip.decompress((tmp_path / "verbs.csv.gz").read_bytes()).decode()
    header, *lines = text.splitlines()

    assert '"rights","posted","tid","connection","verb"' in header
    assert len(lines) == 15


REFUSED = {  # what is refused in one line, and what it names
    "opens no device": (("true",), "opened no RDMA device through libibverbs"),
    "is not there": (("/no/such/program",), "no such program"),
}


@pytest.mark.parametrize("which", REFUSED)
def test_what_cannot_be_recorded_is_said_in_one_line(record, tmp_path, which):
    (program, *words), said = REFUSED[which]
    found = record(*words, program=program)

    assert found.status == 2
    [line] = found.said.splitlines()
    assert said in line
    assert not list(tmp_path.glob("verbs*"))


def test_a_static_program_is_refused_before_it_runs(record, tmp_path):
    source = tmp_path / "still.c"
    source.write_text('#include <stdio.h>\nint main(void) { return puts("ran") < 0; }\n')
    words = [compiler(), "-static", str(source), "-o", str(tmp_path / "still")]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("needs a package: libc6-dev, with the static libc")
    found = record(program=tmp_path / "still")

    assert found.status == 2
    assert "linked statically" in found.said


def test_a_running_process_cannot_be_joined(tmp_path, capsys):
    words = ["record", "--verbs", "-o", str(tmp_path / "t.parquet"), "--pid", str(os.getpid())]

    assert main(words) == 2
    assert "--verbs" in capsys.readouterr().err


def left_in(folder, asking, libraries, *words):
    """The one file that a program's only thread leaves, as the recorder wrote it."""
    environment = environment_of(libraries, folder, os.environ)
    subprocess.run([asking, *words], env=environment, check=False, stdout=subprocess.DEVNULL)
    [path] = folder.iterdir()
    return path


@pytest.mark.parametrize("when", ["after the entries", "after the count", "in an entry"])
def test_a_process_killed_at_any_point_leaves_each_entry_once(tmp_path, asking, libraries, when):
    path = left_in(tmp_path, asking, libraries, "_exit", "3000")
    _, whole = entries_of(path)
    raw = bytearray(path.read_bytes())
    size, mapped = ENTRY.itemsize, (STAGED - 1) * ENTRY.itemsize
    if when == "in an entry":  # the last one's first words are there, its last word is an older's
        last = whole.size % (STAGED - 1)
        raw[last * size + 56 : (last + 1) * size] = bytes(8)
        expected = whole[:-1]
    elif when == "after the entries":  # what is mapped was appended last, and not counted yet
        staged = raw[size : size + mapped]
        raw += staged
        expected = None
    else:
        expected = whole
    path.write_bytes(raw)
    first, found = entries_of(path)

    if expected is None:
        assert found.size == first["length"] + STAGED - 1
    else:
        assert found.tolist() == expected.tolist()


def test_a_full_disk_ends_the_recording_and_not_the_program(tmp_path, asking, libraries):
    if os.geteuid():
        pytest.skip("needs root, to mount a small file system")
    folder = tmp_path / "small"
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(folder)]
    if subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("needs root, to mount a small file system")
    try:
        environment = environment_of(libraries, folder, os.environ)
        done = subprocess.run([asking, "_exit", "20000"], env=environment, check=False)
        [path] = folder.iterdir()
        _, found = entries_of(path)
    finally:
        subprocess.run(["umount", str(folder)], check=True)

    assert done.returncode == 3
    assert 3 * STAGED - 8 <= found.size < 256 * 1024 / ENTRY.itemsize
    assert (found["wr_id"][4:].astype(int) == range(found.size - 4)).all()


def test_receives_of_a_shared_queue_are_told_apart_by_number():
    taken = Conversion()
    entries = [  # a queue of three receives, of which the second and then the first end
        {"kind": "CREATE_QP", "number": 5, "opcode": 2, "wr_id": 77, "context": 1},
        *({"kind": "RECEIVE", "wr_id": wr, "address": 4096 * wr, "length": 64, "remote": 77,
           "pieces": 1, "context": 1} for wr in (1, 2, 3)),
        *({"kind": "COMPLETION", "wr_id": wr, "number": 5, "opcode": 128, "length": wr,
           "context": 1} for wr in (2, 1)),
    ]  # fmt: skip
    taken.take(*made(entries))
    rows, lengths, _ = taken.rows.arrays()

    assert [*zip(rows["address"].tolist(), lengths.tolist(), strict=True)] == [(4096, 1), (8192, 2)]
    assert set(rows["connection"].tolist()) == {0}
    assert taken.observed.unfinished == 1


def test_what_another_recorded_process_serves_is_its_row():
    taken = Conversion()
    one = {"context": 1, "number": 17}
    entries = [
        *({"kind": "GID", "remote": pid, "context": 1, "pid": pid} for pid in (1, 2)),
        {"kind": "REGISTER", "address": 1 << 20, "remote": 1 << 30, "length": 4096, "rkey": 9,
         "lkey": 9, "bits": 7, "context": 1, "pid": 2},
        *({"kind": "CREATE_QP", "opcode": 2, "pid": pid, **one} for pid in (1, 2)),
        *({"kind": "PATH", "remote": 3 - pid, "lkey": 17, "bits": 1, "pid": pid, **one}
          for pid in (1, 2)),
        {"kind": "SEND", "opcode": 0, "address": 64, "length": 100, "remote": (1 << 30) + 8,
         "rkey": 9, "pieces": 1, "pid": 1, **one},
    ]  # fmt: skip
    taken.take(*made(entries))
    rows, _, _ = taken.rows.arrays()

    *_, written, served = rows[["node", "pid", "address", "peer", "connection"]].tolist()
    assert written == (0, 1, 64, 1, 0)
    assert served == (1, 2, (1 << 20) + 8, 0, 1)


def made(told):
    """Entries with these fields, the processes and threads that they are of."""
    entries = np.zeros(len(told), ENTRY)
    processes = np.array([each.pop("pid", 1) for each in told], np.int32)
    for place, fields in enumerate(told):
        entries["ticks"][place] = place
        for name, value in fields.items():
            entries[name][place] = Kind[value] if name == "kind" else value
    return entries, processes, processes


ORACLE = [  # what perftest's and the pingpongs' options say that each end moves, in 24 messages
    ("ib_write_bw -s 9000", {"write": (24, 9000), "serve_write": (24, 9000)}),
    ("ib_read_bw -s 3000", {"read": (24, 3000), "serve_read": (24, 3000)}),
    ("ib_atomic_bw", {"read": (24, 8), "serve_read": (24, 8)}),
    ("ib_send_bw -s 700", {"send": (24, 700), "recv": (24, 700)}),
    ("ibv_rc_pingpong -g 1 -s 5000", {"send": (48, 5000), "recv": (48, 5000)}),
    ("ibv_rc_pingpong -g 1 -N -s 5000", {"send": (48, 5000), "recv": (48, 5000)}),
    ("ibv_ud_pingpong -g 1 -s 1000", {"send": (48, 1000), "recv": (48, 1040)}),  # with the GRH
]


@pytest.mark.long
@needs("ibv_srq_pingpong")
def test_receives_of_a_shared_queue_are_recorded_with_their_pair(execute, tmp_path):
    path = tmp_path / "both.parquet"
    command = f"ibv_srq_pingpong -g 1 -q 3 -s 600 -n 24 -p {free_port()}"
    ended = execute(
        *("--json", "--record", str(path), "--peer", f"{command} localhost", "--"),
        *shlex.split(command),
    )
    rows = pq.read_table(path).to_pylist()

    assert ended.returncode == 0, ended.stderr
    # An end stops when 24 of its sends have ended, and then each of its pairs but one may have one
    # more under way.
    assert 48 <= len(of(rows, "recv")) <= len(of(rows, "send")) <= 48 + 2 * (3 - 1)
    assert {each["length"] for each in of(rows, "send", "recv")} == {600}
    assert len({each["connection"] for each in of(rows, "recv")}) == 6


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param(*each, marks=[needs(each[0].split()[0]), *[pytest.mark.long] * (number > 0)])
        for number, each in enumerate(ORACLE)
    ],
)
def test_a_run_of_compiled_programs_makes_the_requests_of_their_options(
    execute, tmp_path, command, expected
):
    path = tmp_path / "both.parquet"
    command = f"{command} -n 24 -p {free_port()}"
    ended = execute(
        *("--json", "--record", str(path), "--peer", f"{command} localhost", "--"),
        *shlex.split(command),
    )
    rows = pq.read_table(path).to_pylist()
    registered, requests = of(rows, "register"), of(rows, *expected)

    assert ended.returncode == 0, ended.stderr
    assert {
        op: (
            len(lengths := [row["length"] for row in of(requests, op)]),
            *set(lengths),
        )
        for op in {row["op"] for row in rows} - {"register", "deregister"}
    } == expected
    for each in requests:  # each lies in a region of its process
        assert any(
            (region["node"], region["pid"]) == (each["node"], each["pid"])
            and region["address"] <= each["address"]
            and each["address"] + each["length"] <= region["address"] + region["length"]
            for region in registered
        )
    assert len({(row["node"], row["pid"]) for row in rows}) == 2
    # A datagram's completion does not say where it came from.
    told = [row for row in requests if row["op"] != "recv" or "_ud_" not in command]
    assert {(row["node"], row["peer"]) for row in told} <= {(0, 1), (1, 0)}
