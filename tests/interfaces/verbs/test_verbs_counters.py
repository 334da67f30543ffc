"""Counters of programs of verbs: in what the command prints and writes, and in the program."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

from nicscope.cli.app import main


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
    words = ["--node", "0", "examples/verbs/server.py", "--node", "1"]
    folder = tmp_path / "out"
    client = "examples/verbs/client.py 10.0.0.1 3"

    assert main(["verbs", "run", "--out", str(folder), *words, client]) == 0

    text = capsys.readouterr().out
    row = next(line for line in text.splitlines() if line.startswith("port_xmit_packets"))
    table = pq.read_table(folder / "counters.parquet").to_pylist()
    sent = {one["node"]: one["value"] for one in table if one["counter"] == "port_xmit_packets"}
    came = {one["node"]: one["value"] for one in table if one["counter"] == "port_rcv_packets"}
    assert row.split()[1:3] == [str(sent[0]), str(sent[1])]
    assert (sent[0], sent[1]) == (came[1], came[0])
    assert {one["folder"] for one in table} == {"counters", "hw_counters"}
