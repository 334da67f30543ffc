"""``nicscope trace info`` and ``nicscope trace convert`` as a user meets them."""

import json
import subprocess
import sys

import pytest
from trace_samples import parquet, rows

from nicscope.cli.app import main
from nicscope.traces.reader import open_trace
from nicscope.traces.schema import TraceMetadata
from nicscope.traces.writer import write_trace
from refusals import refused_command


@pytest.fixture
def trace(tmp_path):
    origin = {"program": "a [server]", "command": ["serve", "--fast"]}
    columns = rows(6, length=[1, 3, 64, 64, 4096, 70_000], op=["send", "recv"] * 3)
    write_trace(tmp_path / "t.parquet", columns, TraceMetadata(origin=origin))
    return tmp_path / "t.parquet"


def test_info_shows_counts_operations_sizes_and_origin(trace, capsys):
    assert main(["trace", "info", str(trace)]) == 0

    output = capsys.readouterr()
    assert output.err == ""
    lines = [line.rstrip() for line in output.out.splitlines()]
    assert max(map(len, lines)) <= 100
    shown = dict(line.split("  ", 1) for line in lines if "  " in line)
    shown = {name: text.strip() for name, text in shown.items()}
    assert shown["requests"] == "6"
    assert shown["nodes, processes"] == "2, 6"
    assert shown["bytes moved"] == "74,228 (72.5 KiB)"
    assert shown["page lookups"].startswith("27, ")
    assert shown["program"] == "a [server]"
    assert shown["command"] == "serve --fast"
    assert ["send", "send", "3", "50.0%", "4.1", "KiB"] in [line.split() for line in lines]
    histogram = [line for line in lines if "…" in line or " B  " in line]
    assert len(histogram) == 17  # from 1 byte to 64 KiB, the empty classes between among them
    assert [line.strip("█▏ ").split()[-1] for line in histogram[:3]] == ["1", "1", "0"]
    assert "█" * 40 in histogram[6]
    assert histogram[6].split()[:5] == ["64", "B", "…", "128", "B"]


def test_info_json_is_one_object_with_every_count(trace, capsys):
    assert main(["trace", "info", str(trace), "--json"]) == 0

    result = json.loads(capsys.readouterr().out)
    assert result["file"] == str(trace)
    assert result["requests"] == 6
    assert result["requests_per_op"]["recv"] == 3
    assert result["bytes"] == 74_228
    assert result["metadata"]["origin"]["program"] == "a [server]"
    assert result["reuse"] == result["lookups"] / result["pages"]


def test_info_of_a_trace_without_times_says_so(tmp_path, capsys):
    path = parquet(tmp_path / "t.parquet", rows(2, time_ns=[0, 0]))

    assert main(["trace", "info", str(path)]) == 0

    assert "unknown (no times)" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["info", "convert"])
def test_a_bad_trace_is_one_line_and_status_2(tmp_path, capsys, command):
    path = parquet(tmp_path / "t.parquet", rows(3, length=[1, 0, 1]))
    more = [str(tmp_path / "t.csv")] if command == "convert" else []

    refused_command(capsys, ["trace", command, path, *more], f"{path}: row 1 (", "length is 0")
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_convert_says_what_it_wrote_and_what_it_could_not_see(tmp_path, capsys):
    (tmp_path / "x.log").write_text(
        "1 5.0 socket(AF_INET, SOCK_STREAM, 0) = 3\n"
        "1 5.1 read(0x3, 0x1000, 0x10) = 0x10\n"
        "1 5.2 writev(0x3, 0x1000, 0x2) = 0x10\n"
        "1 5.3 close(3) = 0\n"
    )
    target = tmp_path / "x.parquet"

    assert main(["trace", "convert", str(tmp_path / "x.log"), str(target)]) == 0

    assert capsys.readouterr().out == (
        f"{target}: 1 request (strace to parquet)\n  vector calls unseen: writev 1\n"
    )
    assert open_trace(target).rows == 1


def test_convert_takes_what_a_format_does_not_say(tmp_path, capsys):
    (tmp_path / "x").write_text(" L 1000,8\n")
    target = tmp_path / "out"
    options = ["--from", "lackey", "--to", "parquet", "--node", "3", "--pid", "9", "--json"]

    assert main(["trace", "convert", str(tmp_path / "x"), str(target), *options]) == 0

    assert json.loads(capsys.readouterr().out) == {
        "file": str(target),
        "requests": 1,
        "from": "lackey",
        "to": "parquet",
        "observed": {"instruction_fetches": 0, "loads": 1, "stores": 0, "modifies": 0},
        "lost": [],
    }
    requests = open_trace(target).read()
    assert (requests.node[0], requests.pid[0]) == (3, 9)


def test_convert_reads_object_traces_as_told(tmp_path, capsys):
    (tmp_path / "x.csv").write_text("9,a,5\n9,b,6\n")
    options = ["--columns", "time-col=2,obj-id-col=1,obj-size-col=3"]
    arguments = ["trace", "convert", str(tmp_path / "x.csv"), str(tmp_path / "o.parquet")]

    refused_command(capsys, [*arguments, *options], "line 1", "time", "'a'")

    (tmp_path / "x.csv").write_text("9,1,5\n9,2,6\n")
    more = ["--op", "write", "--page-size", "8192", "--renumber"]
    assert main([*arguments, *options, *more]) == 0
    requests = open_trace(tmp_path / "o.parquet").read()
    assert (requests.address.tolist(), requests.length.tolist()) == ([0, 0], [5, 6])
    assert open_trace(tmp_path / "o.parquet").metadata.page_size == 8192


@pytest.mark.parametrize("arguments", [["trace"], ["trace", "info"], ["trace", "convert"]])
def test_help_has_examples(arguments, capsys):
    main([*arguments, "--help"])

    output = capsys.readouterr().out
    assert "Usage: nicscope trace" in output
    assert len(arguments) == 1 or "nicscope trace " + arguments[1] in output.partition("Example")[2]


def test_help_does_not_wait_for_the_compiler():
    code = (
        "import sys; from nicscope.cli.app import main; main(['trace', '--help']); "
        "sys.exit([m for m in ('numba', 'pyarrow', 'numpy') if m in sys.modules] or None)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)

    assert done.returncode == 0, done.stderr


class Terminal:
    """Stands for a stderr that somebody looks at."""

    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def write(self, text):
        self.text += text
        return len(text)

    def flush(self):
        pass


def test_a_long_command_shows_its_progress_to_those_who_look(trace, monkeypatch, capsys):
    monkeypatch.setattr("nicscope.library.progress.PATIENCE_S", 0.0)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    assert main(["trace", "info", str(trace), "--json"]) == 0

    assert "reading" in terminal.text
    assert "rows/s" in terminal.text
    assert json.loads(capsys.readouterr().out)["requests"] == 6


def test_a_quick_command_shows_none(trace, monkeypatch, capsys):
    assert main(["trace", "info", str(trace), "--json"]) == 0  # its kernels are compiled now
    capsys.readouterr()
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    assert main(["trace", "info", str(trace), "--json"]) == 0

    assert terminal.text == ""
