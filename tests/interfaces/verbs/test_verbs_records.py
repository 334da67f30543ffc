"""What is known of programs of verbs once they have run: counters, timelines, and time taken."""

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import nicscope as ns
from nicscope.cli.app import main
from nicscope.errors import DesignError, StudyError
from nicscope.interfaces.verbs.enumerations import names_of
from nicscope.interfaces.verbs_device import calls
from nicscope.studies.verbs_programs import TOPOLOGIES, topology_named
from oracle.roce_frames import captured

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
    assert {names[f"IBV_WR_{name}"] for name in calls.NAMES.values()} == {*calls.NAMES}
    assert {*calls.NAMES} == {*calls.OF_REQUEST}


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


def pinged(path, *words):
    """Command, and the opcodes of the frames that it leaves in a file."""
    assert main(["verbs", "run", "--pcap", str(path), *words]) == 0
    return [each["opcode"] for _, _, each in captured(path.read_bytes())]


def test_frames_are_captured_of_one_program_or_of_one_on_each_node(tmp_path, capsys):
    rounds = ["RC SEND Only", "RC Acknowledge"]
    assert pinged(tmp_path / "one.pcapng", *PINGPONG) == 4 * rounds
    assert "one.pcapng: 8 frames" in capsys.readouterr().err
    nodes = [*NODES, "examples/verbs/client.py 10.0.0.1 2"]
    assert pinged(tmp_path / "two.pcapng", *nodes) == 4 * rounds
    frames = captured((tmp_path / "two.pcapng").read_bytes())
    assert {node for node, _, _ in frames} == {0, 1}


def test_frames_on_standard_output_have_the_program_speak_beside_them(capfdbinary):
    assert main(["verbs", "run", "--pcap", "-", *PINGPONG]) == 0

    out, err = capfdbinary.readouterr()
    assert len(captured(out)) == 8
    assert b"the last answer was pong" in err


def test_frames_are_of_one_design_and_do_not_mix_with_a_timeline():
    designs = ["--design", "utlb", "--design", "rnic"]
    with pytest.raises(StudyError, match="2 designs; capture one"):
        ns.run_verbs(PINGPONG[0], pcap="x.pcapng", design=["utlb", "rnic"])
    assert main(["verbs", "run", *designs, "--pcap", "x.pcapng", *PINGPONG]) == 2
    assert main(["verbs", "run", "--timeline", "-", "--pcap", "-", *PINGPONG]) == 2


def test_a_device_that_nobody_opened_has_an_empty_timeline(tmp_path):
    program = tmp_path / "nothing.py"
    program.write_text("pass\n")
    file = tmp_path / "t.json"

    assert main(["verbs", "run", "--timeline", str(file), str(program)]) == 0

    assert slices(file) == []


def test_a_program_reads_its_devices_counters_where_it_does_with_a_card(tmp_path, capsys):
    program = tmp_path / "reads.py"
    program.write_text(
        "import pathlib, subprocess, pingpong\n"
        'at = "/sys/class/infiniband/nicscope0/ports/1/"\n'
        'sent = int(open(at + "counters/port_xmit_packets").read())\n'
        'came = pathlib.Path(at + "counters/port_rcv_packets").read_text()\n'
        'none = subprocess.check_output(["cat", at + "hw_counters/out_of_buffer"], text=True)\n'
        "print(sent > 0, int(came) == sent, repr(none))\n"
        "for wrong in ('hw_counters/port_rcv_packets', 'counters/nothing'):\n"
        "    try:\n"
        "        open(at + wrong)\n"
        "    except OSError:\n"
        "        print('not there')\n"
    )
    (tmp_path / "pingpong.py").write_text(
        Path("examples/verbs_pingpong.py").read_text() + "\nmain()\n"
    )

    assert main(["verbs", "run", "--json", str(program)]) == 0

    told = capsys.readouterr()
    assert "True True '0\\n'\nnot there\nnot there\n" in told.err
    counters = json.loads(told.out)["runs"][0]["counters"]
    assert counters["port_xmit_packets"] == counters["port_rcv_packets"] > 0


def test_each_node_has_counters_of_its_own(tmp_path, capsys):
    folder = tmp_path / "out"
    client = "examples/verbs/client.py 10.0.0.1 3"

    assert main(["verbs", "run", "--out", str(folder), *NODES, client]) == 0

    text = capsys.readouterr().out
    row = next(line for line in text.splitlines() if line.startswith("port_xmit_packets"))
    table = pq.read_table(folder / "counters.parquet").to_pylist()
    sent = {one["node"]: one["value"] for one in table if one["counter"] == "port_xmit_packets"}
    came = {one["node"]: one["value"] for one in table if one["counter"] == "port_rcv_packets"}
    assert row.split()[1:3] == [str(sent[0]), str(sent[1])]
    assert (sent[0], sent[1]) == (came[1], came[0])
    assert {one["folder"] for one in table} == {"counters", "hw_counters"}


def test_a_ping_pong_takes_longer_the_more_switches_are_on_its_way():
    server, client, took = "examples/verbs/server.py", "examples/verbs/client.py", {}
    for name in TOPOLOGIES:
        runs = ns.run_verbs(
            nodes={0: [server], 1: [client, "10.0.0.1", "2"]}, topology=name
        ).found.runs
        took[name] = runs[1].elapsed_us
        assert [run.messages_out for run in runs] == [2, 2]
    assert took["pair"] < took["crossbar"] < took["trunk"]


@pytest.mark.parametrize("nodes", [2, 3, 5])
def test_a_trunk_joins_any_number_of_nodes(nodes):
    made = topology_named("trunk", nodes)
    assert made.nodes == nodes
    assert made.hops[0, nodes - 1] == 2
    assert nodes == 2 or made.hops[0, 1] == 1
    with pytest.raises(DesignError, match="no topology 'ring'"):
        topology_named("ring", nodes)
