"""Every command that may take long says how far it is, also where nobody looks at a terminal."""

import pytest

from every_command import COMMANDS, RUNS
from nicscope.cli.app import main
from nicscope.library import progress


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
    assert {run.command for run in RUNS} == set(COMMANDS)


# Of each command a run for each kind of what it reads.
LONG = {
    (
        run.command,
        *(kind for _, kind, _ in run.places if kind in ("trace", "program_trace")),
    ): run.plain
    for run in reversed(RUNS)
    if not (run.silent or run.heavy)
}


@pytest.mark.parametrize("run", LONG.values(), ids=lambda run: run.line)
def test_a_long_command_tells_how_much_is_done_of_how_much(
    run, watched, tmp_path, capsys, monkeypatch
):
    for name in ("AT_ONCE", "INTERPRETED_AT_ONCE"):
        monkeypatch.setattr(f"nicscope.drivers.simulate.advance.{name}", 4)

    assert main(run.words(tmp_path)) == 0

    told = [pair for one in watched for pair in one.told]
    assert told
    assert all(0 <= done <= total for done, total in told)
    assert max(done / total for done, total in told) >= 0.5
    assert "so far" not in capsys.readouterr().err  # over before anything had to be said


@pytest.mark.compiled
def test_the_demo_tells_it_too(watched, tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path / "o")]) == 0

    assert len(watched) >= 3
    assert all(one.told[-1][0] == one.told[-1][1] for one in watched)
    capsys.readouterr()


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
