"""Makes ``tests/oracle`` importable as ``oracle`` and chooses the tests of the way that runs."""

import functools
import json
import os
import signal
import sys
from pathlib import Path

import pytest
import typer.main

from nicscope.library import progress

sys.path.insert(0, str(Path(__file__).parent))

import suite

ROOT = Path(__file__).parent
# What a machine may lack.  A test that is skipped in every way for another reason fails the run.
NEEDS = ("needs root", "needs Chromium", "needs Linux", "needs data", "needs a package")

# Compiled code is what the compiled ways test: it is waited for.
os.environ.setdefault("NICSCOPE_COMPILE", "wait")

# Tables are as wide as wherever the tests are run says, and tests are run anywhere.
os.environ["COLUMNS"] = "100"


def pytest_addoption(parser):
    parser.addoption("--way", choices=suite.WAYS, help="run the tests of this way (tests/suite.py)")
    parser.addoption("--outcomes", help="file to write each test's outcome to, a line each")


def _places(path):
    parts = path.relative_to(ROOT).parts
    return {"/".join(parts[: 1 + depth]) for depth in range(len(parts))}


def _way(config):
    return config.getoption("--way") or suite.present()


def pytest_ignore_collect(collection_path, config):
    if config.getoption("--way") and collection_path.name.startswith("test_"):
        places = _places(collection_path)
        if not suite.may_hold(config.getoption("--way"), places, collection_path.read_text()):
            return True
    return None


def pytest_collectstart(collector):
    if isinstance(collector, pytest.Module) and collector.path.is_relative_to(ROOT):
        suite.load_examples(_way(collector.config), _places(collector.path))


def pytest_collection_modifyitems(config, items):
    """Leave the tests of the present way, and refuse one that runs in none."""
    assert all(
        (ROOT / place).exists()
        for places in (suite.KERNELS, suite.SELDOM_COMPILED, suite.COMPILED_TOO, suite.MESSAGES)
        for place in (*places, *suite.FIRST)
    )
    way = _way(config)
    chosen, others = [], []
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        its = suite.ways_of(_places(item.path), marks)
        if config.getoption("--way"):
            runs = way in its
        else:  # by hand: what was named, unless it cannot run like this
            runs = not ("long" in marks or (way == "plain" and "compiled" in marks))
        (chosen if runs else others).append(item)
        for each in its:  # a mark from elsewhere would have the file passed over
            assert suite.may_hold(each, _places(item.path), item.path.read_text()), item.nodeid
        if its == {way} and (reason := _skipped(item)):
            raise pytest.UsageError(
                f"{item.nodeid} is skipped ({reason}) in {way}, the only way that it runs: "
                "mark it compiled or long instead, or let the reason be one of NEEDS (conftest.py)"
            )
    if config.getoption("--way"):
        files = [str(item.path.relative_to(ROOT)) for item in chosen]
        turn = {file: place for place, file in enumerate(suite.in_turn(files))}
        chosen.sort(key=lambda item: turn[str(item.path.relative_to(ROOT))])
    items[:] = chosen
    config.hook.pytest_deselected(items=others)


def _skipped(item):
    """Why a mark of ``item`` skips it, if that is not for want of something on this machine."""
    for mark in item.iter_markers():
        if mark.name == "skip" or (mark.name == "skipif" and any(map(bool, mark.args))):
            reason = mark.kwargs.get("reason", "no reason given")
            if not reason.startswith(NEEDS):
                return reason
    return None


def pytest_configure(config):
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as for what a shell runs behind it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--outcomes") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(Path(config.getoption("--outcomes"))))


class Outcomes:
    """Writes what became of each test, for the check over all ways (tests/__main__.py)."""

    def __init__(self, path):
        self._file = path.open("w", buffering=1)

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            reason = report.longrepr[2] if report.skipped and report.longrepr else ""
            self._file.write(json.dumps([report.nodeid, report.outcome, str(reason)]) + "\n")


@pytest.fixture(autouse=True, scope="session")
def command_line():
    """Have Typer build the commands once: it does so for each call, in more time than most take."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
        yield


@pytest.fixture
def no_pixels(monkeypatch):
    """Have figures made and not drawn, which takes longest."""
    from matplotlib.figure import Figure  # whose method nobody has by another name

    monkeypatch.setattr(Figure, "savefig", lambda _figure, target, **_look: target.write(b"drawn"))


@pytest.fixture(autouse=True)
def no_progress_lines(monkeypatch):
    """Commands say nothing of how far they are: what tests compare must not depend on the time."""
    monkeypatch.setattr(progress, "PATIENCE_S", 3600.0)
