"""``nicscope replay --contexts --work-requests``: what a NIC keeps of a trace's connections."""

import json

import pyarrow as pa
import pytest
from trace_files import write

from nicscope.cli.app import main
from refusals import refused_command

COUNT = 40
KEPT = ["--contexts", "2", "--work-requests", "8", "--tx-depth", "4"]


def counted(capsys, path, *words):
    assert main(["replay", str(path), "--design", "rnic", *KEPT, *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def peers(tmp_path, **columns):
    columns = {"node": [0] * COUNT, "pid": [1] * COUNT, "op": ["send"] * COUNT, **columns}
    return write(tmp_path / "t.parquet", count=COUNT, **columns)


def test_a_process_and_its_peer_are_a_connection_where_the_trace_has_no_number(tmp_path, capsys):
    path = peers(tmp_path, peer=[number % 4 for number in range(COUNT)])
    found = counted(capsys, path)["connections"]
    assert found["rule"] == "a process and its peer"
    assert found["total"]["connections"] == 4
    assert found["total"]["requests"] == found["total"]["posted"] == COUNT
    assert found["total"]["context_lookups"] == 2 * COUNT
    assert found["total"]["work_request_misses"] > 0  # 16 outstanding, of which 8 are kept
    assert [node["node"] for node in found["nodes"]] == [0]


def test_a_column_of_connections_goes_before_peers_and_counts_those_that_are_known(
    tmp_path, capsys
):
    numbers = [None if number < 5 else number % 2 for number in range(COUNT)]
    path = peers(tmp_path, peer=[0] * COUNT, connection=numbers, types={"connection": pa.int32()})
    found = counted(capsys, path)["connections"]
    assert found["rule"] == "a number of the trace's"
    assert found["total"]["connections"] == 2
    assert found["total"]["unknown_connections"] == 5
    assert found["total"]["requests"] == COUNT - 5
    assert found["total"]["context_misses"] == 2


def test_all_else_is_counted_as_without_them(tmp_path, capsys):
    path = peers(tmp_path, peer=[0] * COUNT)
    own = counted(capsys, path)
    assert main(["replay", str(path), "--design", "rnic", "--json"]) == 0
    without = json.loads(capsys.readouterr().out)
    del own["connections"], own["repeat"], without["repeat"]
    assert own == without


def test_the_table_says_what_hits_and_misses(tmp_path, capsys):
    path = peers(tmp_path, peer=[0] * COUNT)
    assert main(["replay", str(path), "--design", "rnic", *KEPT]) == 0
    shown = capsys.readouterr().out
    assert "What the NIC keeps of connections" in shown
    assert "1 connection (a process and its peer), each with up to 4 outstanding requests" in shown


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--design", "rnic", *KEPT], ["nothing says", "'connection'", "'peer'"]),
        (["--design", "utlb", *KEPT], ["--contexts", "rnic"]),
        (["--design", "rnic", "--contexts", "8"], ["--work-requests"]),
        (["--design", "rnic", "--work-requests", "8"], ["--contexts"]),
        (["--design", "rnic", "--tx-depth", "8"], ["--tx-depth 8", "--contexts"]),
        (["--design", "rnic", *KEPT, "--tx-depth", "0"], ["--tx-depth", "1"]),
        (["--design", "rnic", *KEPT, "--contexts", "-1"], ["--contexts", "-1"]),
        (["--design", "rnic", *KEPT, "--context-replacement", "fifo"], ["fifo"]),
    ],
)
def test_what_cannot_be_counted_is_refused(tmp_path, capsys, words, named):
    refused_command(capsys, ["replay", str(peers(tmp_path)), *words], *named)
