"""What a bench prints is of compiled code, and what `make speed` says follows from its ratios."""

import ast
import datetime
import os
import subprocess
import sys
import tomllib
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace

import pytest

BENCH = Path(__file__).parents[1] / "bench"
SCRIPTS = [*sorted(BENCH.glob("bench_*.py")), BENCH / "speed_rows.py"]
MODE = "from nicscope.kernel.settings import MODE; print(MODE.name)"


def imported(tree):
    """Modules in the order in which a file imports them when it is run."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)


def names_its_mode(tree):
    return any(
        isinstance(n, ast.Constant) and n.value == "NICSCOPE_COMPILE" for n in ast.walk(tree)
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_bench_waits_for_the_compiler_or_says_itself_who_compiles(script):
    tree = ast.parse(script.read_text())
    modules = list(imported(tree))

    if "compiled" in modules:
        others = {name for name in modules if (BENCH / f"{name}.py").exists()} - {"compiled"}
        first = [name for name in modules if name in others or name.startswith("nicscope")]
        assert all(modules.index("compiled") < modules.index(name) for name in first)
    else:
        assert names_its_mode(tree)


@pytest.mark.parametrize(("said", "found"), [(None, "wait"), ("background", "background")])
def test_what_imports_compiled_waits_for_it_unless_something_else_is_said(said, found):
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("NICSCOPE_COMPILE", "NUMBA_DISABLE_JIT")
    } | ({"NICSCOPE_COMPILE": said} if said else {})
    ran = subprocess.run(
        [sys.executable, "-c", f"import compiled; {MODE}"],
        cwd=BENCH,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert ran.stdout.strip() == found


@pytest.fixture
def speed(monkeypatch):
    monkeypatch.syspath_prepend(BENCH)
    import speed

    return speed


def row(speed, name, *shares):
    """A row that takes twice as long as its peer, over the share of a repetition; and how often."""
    times = chain.from_iterable(repeat(2 / share, speed.ROUNDS) for share in shares)
    return SimpleNamespace(name=name, beside="peer", own=lambda: next(times), other=lambda: 1.0)


def said_of(speed, capsys, *rows):
    """The exit status where 0.5 is committed of every row, and what is said of rows."""
    status = speed.check(rows, {row.name: 0.5 for row in rows})
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    return status, [line for line in lines if line.startswith(("lost", "gained"))]


@pytest.mark.parametrize(
    ("shares", "status", "said"),
    [
        ((0.79, 0.79, 0.79), 1, ["lost: replay, 0.79 of the committed figure"]),
        ((0.79, 0.81), 0, []),
        ((0.79, 0.79, 0.81), 0, []),
        ((0.81,), 0, []),
        ((1.19,), 0, []),
        ((1.21, 1.21, 1.19), 0, []),
        ((1.21, 1.22, 1.23), 0, ["gained: replay, raise the committed figure from 0.5 to 0.61"]),
        ((0.5, 1.5), 0, []),
    ],
)
def test_a_row_fails_if_it_lost_a_fifth_three_times_and_a_gain_is_only_said(
    speed, capsys, shares, status, said
):
    assert said_of(speed, capsys, row(speed, "replay", *shares)) == (status, said)


def test_one_row_that_lost_is_enough_and_a_gain_makes_up_for_nothing(speed, capsys):
    gained, kept, lost = repeat(2.0, 3), [1.0], repeat(0.5, 3)
    rows = (row(speed, "a", *gained), row(speed, "b", *kept), row(speed, "c", *lost))

    assert said_of(speed, capsys, *rows) == (
        1,
        [
            "gained: a, raise the committed figure from 0.5 to 1",
            "lost: c, 0.50 of the committed figure",
        ],
    )


def test_a_ratio_is_the_median_of_the_rounds_and_its_spread_half_of_their_range(speed, monkeypatch):
    monkeypatch.setattr(speed, "ROUNDS", 5)
    own = iter([4.0, 2.0, 1.0, 2.5, 5.0])  # ratios 0.25, 0.5, 1, 0.4, 0.2
    found = speed.measure(SimpleNamespace(own=lambda: next(own), other=lambda: 1.0))

    assert found == pytest.approx((0.4, 0.4))


def test_where_nothing_is_committed_nothing_is_measured_again_or_judged(speed, capsys):
    assert speed.check([row(speed, "replay", 0.1)], {}) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_what_is_proposed_is_read_again_and_what_was_not_measured_is_left(
    speed, tmp_path, monkeypatch
):
    monkeypatch.setattr(speed, "COMMITTED", tmp_path / "speed.toml")
    monkeypatch.setattr(speed, "here", lambda: "znver9, Python 3.12")
    old = {"ratio": 7.5, "date": datetime.date(2026, 1, 2)}
    figures = {"znver9, Python 3.12": {"a, b": old, "c": old}, "other": {"a, b": old}}

    speed.propose([row(speed, "a, b", 0.4, 0.8, 0.5)], figures)

    written = tomllib.loads((tmp_path / "speed.toml").read_text())
    assert written["other"] == {"a, b": old}
    assert written["znver9, Python 3.12"]["c"] == old
    assert written["znver9, Python 3.12"]["a, b"]["ratio"] == 0.25  # half of the median share
