"""Frames of compiled programs: each request once without loss, and none that Wireshark minds."""

from __future__ import annotations

import collections
import re
import shutil
import subprocess

import pytest
from live_clients import free_port, needs

from oracle.roce_frames import captured

FEW = 20
PATTERN = re.compile(r"([\d,]+) frames")
PROGRAMS = [
    (f"ib_send_bw -n {FEW} -s 9000", "RC SEND", 9000),
    (f"ib_write_bw -n {FEW} -s 9000", "RC RDMA WRITE", 9000),
    (f"ib_read_bw -n {FEW} -s 9000", "RC RDMA READ response", 9000),
    (f"ib_atomic_bw -n {FEW}", "RC FetchAdd", 0),
    (f"ib_send_bw -n {FEW} -c UD -s 1024", "UD SEND", 1024),
    (f"ib_write_bw -n {FEW} -c UC -s 9000", "UC RDMA WRITE", 9000),
]


def run(execute, path, command, *options):
    command = f"{command} -p {free_port()}"
    words = ["--pcap", str(path), *options, "--peer", f"{command} localhost", "--"]
    ended = execute(*words, *command.split())
    assert ended.returncode == 0, ended.stderr
    return ended


@needs("ib_send_bw")
@pytest.mark.parametrize(("command", "name", "size"), PROGRAMS, ids=[each[0] for each in PROGRAMS])
def test_every_message_is_there_once_with_consecutive_numbers(
    execute, tmp_path, command, name, size
):
    path = tmp_path / "frames.pcapng"
    ended = run(execute, path, command)
    frames = captured(path.read_bytes())
    assert int(PATTERN.search(ended.stdout)[1].replace(",", "")) == len(frames)

    of_message = [(node, each) for node, _, each in frames if each["opcode"].startswith(name)]
    assert sum(len(each["payload"]) for _, each in of_message) == FEW * size
    ends = [each for _, each in of_message if "First" in each["opcode"] or "Only" in each["opcode"]]
    assert len(ends if size else of_message) == FEW
    requests = collections.defaultdict(list)
    for node, _, each in frames:
        if "Acknowledge" not in each["opcode"] or "ATOMIC" in each["opcode"]:
            requests[node, each["qp"]].append(each["psn"])
    for numbers in requests.values():
        assert [(number - numbers[0]) % 2**24 for number in numbers] == [*range(len(numbers))]
    ips = {(bytes(each["source"]), bytes(each["destination"])) for _, _, each in frames}
    hosts = bytes((10, 0, 0, 1)), bytes((10, 0, 0, 2))
    assert ips <= {hosts, hosts[::-1]} or all(len(one) == 16 for one, _ in ips)


@needs("ib_send_bw")
@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs a package: tshark")
@pytest.mark.parametrize("command", [PROGRAMS[i][0] for i in (0, 2, 3, 4)])
def test_wireshark_reads_every_frame_as_we_do(execute, tmp_path, command):
    path = tmp_path / "frames.pcapng"
    run(execute, path, command, "--loss", "0.01")
    frames = captured(path.read_bytes())
    fields = ("bth.opcode", "bth.psn", "bth.destqp", "invariant.crc")
    asked = [
        "tshark",
        "-r",
        str(path),
        "-T",
        "fields",
        "-e",
        "_ws.malformed",
        "-e",
        "_ws.expert.message",
    ]
    for field in fields:
        asked += ["-e", f"infiniband.{field}"]
    shown = subprocess.run(asked, capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in shown.stdout.splitlines()]
    assert len(rows) == len(frames)
    for (malformed, expert, opcode, psn, pair, crc), (_, _, each) in zip(rows, frames, strict=True):
        assert (malformed, expert) == ("", "")
        assert (int(psn), int(pair, 16)) == (each["psn"], each["qp"])
        assert opcode
        assert crc


def test_frames_need_a_file_of_their_own(execute):
    ended = execute("--pcap", "-", "--", "true")
    assert ended.returncode != 0
    assert "name a file for --pcap" in ended.stderr
