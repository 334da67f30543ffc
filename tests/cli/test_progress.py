"""The bar, and the lines where there is no terminal: only if it takes long, then regularly."""

import io
import itertools
import re
import sys
import time

import pytest

from nicscope.library import progress


@pytest.fixture(autouse=True)
def as_a_command():
    """Whose lines go to logs; a library has none."""
    with progress.progress_in_logs():
        yield


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def look(monkeypatch):
    """Call it in the test, and the error stream is a terminal; pytest sets it anew before."""
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")

    def looked_at():
        monkeypatch.setattr(sys, "stderr", terminal)
        return terminal

    return looked_at


@pytest.fixture
def soon(monkeypatch):
    """Lines come at once and often."""
    for name in ("PATIENCE_S", "PACE_S"):
        monkeypatch.setattr(progress, name, 0.01)


def told(capsys):
    return capsys.readouterr().err.splitlines()


def until(condition, seconds=20.0):
    """Wait until ``condition`` holds, which it does soon."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_quick_run_says_nothing_in_a_log_either(capsys):
    with progress.progress("replaying", "rows") as watch:
        watch(10, 10)
        progress._Listener._hear("lookup")

    assert told(capsys) == []


@pytest.mark.usefixtures("soon")
def test_a_log_gets_share_rate_and_time_left_by_tenths(capsys):
    with progress.progress("replaying", "rows") as watch:
        for done in range(0, 101, 5):
            watch(done * 1000, 100_000)
            time.sleep(0.03)

    lines = told(capsys)
    line = r"nicscope: replaying: (\d+) %, [\d.,]+ (?:M )?rows/s, about \d+ s left, \d+ s so far"
    shares = [int(re.fullmatch(line, one)[1]) for one in lines[1:]]
    assert len(shares) >= 3
    assert all(after - before >= 10 for before, after in itertools.pairwise(shares))
    assert len(lines) <= 11


@pytest.mark.usefixtures("soon")
def test_a_log_hears_of_a_run_that_gets_nowhere(capsys, monkeypatch):
    monkeypatch.setattr(progress, "QUIET_S", 0.02)
    seen = []
    with progress.progress("running", "") as watch:
        until(lambda: seen.extend(told(capsys)) or len(seen) >= 2)
        progress._Listener._hear("replay_utlb")
        until(lambda: seen.extend(told(capsys)) or "replay_utlb" in seen[-1])
        watch(1, 4)
        until(lambda: seen.extend(told(capsys)) or "25 %" in seen[-1])

    assert seen[0] == "nicscope: running: 0 s so far"
    assert seen[-1].startswith("nicscope: running: 25 %")
    time.sleep(0.1)
    assert told(capsys) == []


def test_lines_are_seconds_apart_and_no_longer_than_a_quarter_of_a_minute():
    assert 1.0 <= progress.PACE_S <= 5.0
    assert 5.0 <= progress.QUIET_S <= 15.0
    assert progress.STEP == 0.1


def test_a_quick_run_shows_nothing(look):
    terminal = look()
    with progress.progress("replaying", "rows") as watch:
        watch(10, 10)

    assert terminal.getvalue() == ""


def test_a_long_run_shows_its_rate(look, monkeypatch):
    terminal = look()
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)

    with progress.progress("replaying", "rows") as watch:
        watch(5, 10)

    assert "replaying" in terminal.getvalue()
    assert "50%" in terminal.getvalue()
    assert re.search(r"[\d.,]+ (M )?rows/s", terminal.getvalue())


def test_a_rate_has_the_unit_that_its_size_asks_for():
    assert progress._rate(89_649.12, "rows") == "89,649.1 rows/s"
    assert progress._rate(2_500_000.0, "rows") == "2.5 M rows/s"
    assert progress._rate(2_500_000.0, "") == "2.5 MB/s"


def test_the_kernel_that_compiles_is_named_at_once(look):
    terminal = look()
    with progress.progress("replaying", "rows"):
        progress._Listener._hear("replay_utlb")

    assert "compiling kernels (first use only): replay_utlb..." in terminal.getvalue()


def test_compiling_is_one_plain_line_where_that_is_wanted(capsys):
    with progress.progress("replaying", "rows", always_say=True):
        progress._Listener._hear("lookup")
        progress._Listener._hear("fill")

    assert capsys.readouterr().err == (
        "compiling kernels (first use only); seconds for a replay, about a minute for programs...\n"
    )


def test_after_a_run_nobody_hears_of_kernels(look):
    terminal = look()
    with progress.progress("replaying", "rows"):
        pass
    progress._Listener._hear("lookup")

    assert terminal.getvalue() == ""
