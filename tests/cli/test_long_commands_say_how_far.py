"""Every command that may take long says how far it is, also where nobody looks at a terminal."""

from __future__ import annotations

import pytest
import typer.main
from trace_files import write

from nicscope.cli.app import app, main
from nicscope.library import progress

# Words of each command that may take over two seconds; {} is a trace, {o} what it may write.
LONG = {
    "replay": ["{}", "--design", "utlb"],
    "curve": ["{}"],
    "rcache": ["{}"],
    "fit": ["{o}.json", "--trace", "{}"],
    "connections": ["--threads", "2", "--qps", "2", "--outstanding", "2"],
    "descriptors": ["{}"],
    "odp": ["{}"],
    "path": ["{}"],
    "size": ["{}", "--nic-memory", "256B", "--page-size", "4KiB,64KiB"],
    "sweep": ["{}", "--design", "utlb", "--grid", "entries=16,64", "--out", "{o}.parquet"],
    "simulate": ["{}", "--design", "utlb", "--requests", "4"],
    "flow": ["--count", "2"],
    "latency": ["--mechanism", "edt", "--bytes", "64"],
    "reproduce": ["utlb/table6"],
    "apps collective": ["barrier", "--nodes", "2"],
    "apps run": ["fft", "--size", "1K", "--nodes", "2", "--processes", "1"],
    "apps record-sockets": [],
    "verbs bw": ["--size", "64", "--iters", "4"],
    "verbs lat": ["--size", "64", "--iters", "4"],
    "trace info": ["{}"],
    "trace convert": ["{}", "{o}.csv"],
    "trace make": ["{o}.csv", "--requests", "9"],
    "trace split": ["{}", "{o}"],
    "demo": ["--out", "{o}"],
    "calibrate-platform": [],
    "calibrate-host": ["--memory", "4MiB", "--seconds", "0.1"],
    "compile": [],
}
# Why the others have nothing to say.
OTHERS = {
    "explain": "compares",
    "plan": "divides",
    "register": "multiplies",
    "apps list": "reads the list of programs",
    "designs new": "reads the catalog",
    "designs show": "reads the catalog",
    "platforms new": "reads the catalog",
    "platforms show": "reads the catalog",
    "explore": "its page shows how far it is",
    "coverage": "reads the names of tests",
    "verbs run": "where its program ends nobody knows; it says that it runs",
    "record": "its error stream is the recorded program's; it counts on a terminal",
}
# All traces through all designs; a fit of a minute; what the first runs ask of the compiler; users
# who take their time.
HEAVY = {"demo", "calibrate-platform", "compile", "apps record-sockets"}


def names(group, before=()):
    """Every command of ``group``, as it is typed."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from names(command, (*before, name))
        else:
            yield " ".join((*before, name))


@pytest.fixture
def watched(monkeypatch):
    """Every place where a command says how far it is, with what it is told."""
    made = []

    class Spy(progress._Lines):
        def __init__(self, verb, unit):
            self.told = []
            made.append(self)
            super().__init__(verb, unit)

        def watch(self, done, total):
            self.told.append((done, total))
            super().watch(done, total)

    monkeypatch.setattr(progress, "_Lines", Spy)
    return made


def test_no_command_is_forgotten():
    every = set(names(typer.main.get_command(app)))

    assert every == {*LONG, *OTHERS}


@pytest.mark.parametrize("command", [name for name in LONG if name not in HEAVY])
def test_a_long_command_tells_how_much_is_done_of_how_much(
    command, watched, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("nicscope.drivers.simulate.script._EVENTS_AT_ONCE", 4)
    trace = write(tmp_path / "t.parquet", count=20)
    (tmp_path / "o.json").write_text('{"hits": 3, "misses": 17}')
    words = [word.format(trace, o=tmp_path / "o") for word in LONG[command]]

    assert main([*command.split(), *words]) == 0

    told = [pair for one in watched for pair in one.told]
    assert told
    assert all(0 <= done <= total for done, total in told)
    if command != "reproduce":  # which says what has begun: of one item nothing is done before
        assert max(done / total for done, total in told) >= 0.5
    assert "so far" not in capsys.readouterr().err  # over before anything had to be said


@pytest.mark.compiled
def test_the_demo_tells_it_too(watched, tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path / "o")]) == 0

    assert len(watched) >= 3
    assert all(one.told[-1][0] == one.told[-1][1] for one in watched)
    capsys.readouterr()


def test_a_calibration_tells_it_too(watched, monkeypatch):
    def calibrates(*_, progress, **__):
        progress(3, 4)
        raise KeyboardInterrupt

    monkeypatch.setattr("nicscope.studies.calibrate.fit.calibrate", calibrates)

    assert main(["calibrate-platform"]) == 130

    assert [one.told for one in watched] == [[(3, 4)]]


def test_a_recorded_session_tells_it_too(watched, monkeypatch, tmp_path):
    def records(plan, watch):
        watch(3, plan.users)
        raise KeyboardInterrupt

    monkeypatch.setattr("nicscope.studies.interactive.run_session", records)

    assert main(["apps", "record-sockets", "--out", str(tmp_path / "t.parquet")]) == 130

    assert [one.told for one in watched] == [[(3, 32)]]


def test_compiling_tells_it_too(watched, monkeypatch):
    waiting = iter([3, 2, 2, 0])
    monkeypatch.setattr("nicscope.cli.compiling._ask", lambda _: None)
    monkeypatch.setattr("nicscope.kernel.queue.waiting", lambda: next(waiting, 0))
    monkeypatch.setattr("nicscope.kernel.queue.workers", lambda: [1])

    assert main(["compile"]) == 0

    assert [one.told for one in watched] == [[(1, 3), (1, 3), (3, 3)]]


def test_a_program_whose_end_nobody_knows_says_how_long_it_runs(watched, tmp_path, capsys):
    program = tmp_path / "p.py"
    program.write_text("def main():\n    raise KeyboardInterrupt\n")

    assert main(["simulate", str(program)]) == 130

    assert len(watched) == 1
    capsys.readouterr()
