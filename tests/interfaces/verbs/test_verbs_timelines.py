"""Timelines of programs of verbs: what was posted is found there under the program's own names."""

from __future__ import annotations

import json
import re

from nicscope.cli.app import main
from nicscope.interfaces.verbs.enumerations import names_of
from nicscope.interfaces.verbs_device import codes

PINGPONG = ["examples/verbs_pingpong.py", "2"]
NODES = ["--node", "0", "examples/verbs/server.py", "--node", "1"]
CALLED = re.compile(r"\(((?:node \d+ )?QP 0x[0-9a-f]+ [^)]*)\)")


def slices(path):
    return [each for each in json.loads(path.read_text())["traceEvents"] if each["ph"] == "X"]


def called(events):
    """What the packets of slices are called."""
    return {found[1] for each in events for found in [CALLED.search(each["name"])] if found}


def test_a_request_is_called_what_a_program_calls_it():
    names = names_of("libibverbs_enums")
    assert {names[f"IBV_WR_{name}"] for name in codes.NAMES.values()} == {*codes.NAMES}
    assert {*codes.NAMES} == {*codes.OF_REQUEST}


def test_a_packet_is_named_by_queue_pair_opcode_and_wr_id(tmp_path):
    file = tmp_path / "t.json"

    assert main(["verbs", "run", "--timeline", str(file), *PINGPONG]) == 0

    events = slices(file)
    ping, pong = "QP 0x11 SEND, wr_id 0", "QP 0x12 SEND, wr_id 0"
    assert called(events) == {ping, pong, "QP 0x12 ACK", "QP 0x11 ACK"}
    firmware = [each for each in events if each["name"].startswith("NET_TX")]
    assert any(ping in each["name"] for each in firmware)
    assert any(each["name"] == "system call or poll, process 0" for each in events)


def test_each_design_has_its_part_of_the_records(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("nicscope.studies.timeline.MOST_RECORDS", 60)
    file = tmp_path / "t.json"
    designs = ["--design", "utlb", "--design", "vmmc-interrupt"]

    assert main(["verbs", "run", *designs, "--timeline", str(file), *PINGPONG]) == 0

    assert "t.json: the first 60 of " in capsys.readouterr().err
    events = slices(file)
    assert [sum(each["pid"] == node for each in events) for node in (0, 1)] == [30, 30]


def test_nodes_are_drawn_side_by_side_and_a_packet_says_whose_it_is(tmp_path, capsys):
    page, file = tmp_path / "t.html", tmp_path / "t.json"
    for path in (page, file):
        words = [*NODES, "examples/verbs/client.py 10.0.0.1 2"]
        assert main(["verbs", "run", "--timeline", str(path), *words]) == 0

    assert f"written:\n  {page}" in capsys.readouterr().out
    assert '"tracks":[["node 0"' in page.read_text()
    assert "node 1 QP 0x11 SEND" in page.read_text()
    events = slices(file)
    assert {each["pid"] for each in events} == {0, 1}
    sent = [each for each in events if each["cat"] == "netTx"]
    assert sent
    assert all(f"(node {each['pid']} QP" in each["name"] for each in sent)


def test_a_timeline_on_standard_output_has_the_program_speak_beside_it(capfd):
    assert main(["verbs", "run", "--timeline", "-", *PINGPONG]) == 0

    out, err = capfd.readouterr()
    assert json.loads(out)["traceEvents"]
    assert "the last answer was pong" in err


def test_a_device_that_nobody_opened_has_an_empty_timeline(tmp_path):
    program = tmp_path / "nothing.py"
    program.write_text("pass\n")
    file = tmp_path / "t.json"

    assert main(["verbs", "run", "--timeline", str(file), str(program)]) == 0

    assert slices(file) == []
