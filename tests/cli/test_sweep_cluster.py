"""A sweep on a real Dask cluster on loopback, one of whose two workers is killed half-way."""

import signal
import threading
import time

import pytest
from dask_processes import START_S
from trace_files import write

from nicscope.cli.app import main
from nicscope.studies import workers
from refusals import refused_command

# Dask leaves loops and sockets to the garbage collector when a worker is killed.
pytestmark = [
    pytest.mark.compiled,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*distributed.*"),
]


@pytest.fixture
def trace(tmp_path):
    return write(tmp_path / "t.parquet", count=40_000)


def command(trace, out, *more):
    seeds = ",".join(map(str, range(200)))
    grid = ["--grid", f"seed={seeds}", "--grid", "replacement=random", "--grid", "pin_limit=4,8"]
    return ["sweep", str(trace), "--design", "utlb", *grid, "--out", str(out), *more]


def lines_of(journal):
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


@pytest.mark.timeout(180)
def test_a_worker_killed_half_way_changes_nothing(processes, trace, tmp_path, capsys):
    assert main(command(trace, tmp_path / "local.parquet")) == 0
    out = tmp_path / "cluster.parquet"
    journal = tmp_path / "cluster.parquet.journal"
    victim, _ = processes.worker(), processes.worker()
    half = 200
    killed_at = []

    def kill_half_way():
        while lines_of(journal) < half and not out.exists():
            time.sleep(0.002)
        victim.send_signal(signal.SIGKILL)
        killed_at.append(lines_of(journal))

    killer = threading.Thread(target=kill_half_way, daemon=True)
    killer.start()
    capsys.readouterr()

    assert main(command(trace, out, "--scheduler", processes.address)) == 0

    killer.join(10)
    assert half <= killed_at[0] < 2 * half + 1
    assert victim.wait(10) == -signal.SIGKILL
    assert out.read_bytes() == (tmp_path / "local.parquet").read_bytes()
    assert not journal.exists()
    assert capsys.readouterr().err == ""


@pytest.mark.timeout(180)
def test_what_goes_wrong_on_a_cluster_is_one_line(processes, trace, tmp_path, capsys, monkeypatch):
    out = tmp_path / "o.parquet"
    started = command(trace, out, "--scheduler", processes.address)

    def assert_refused(fact):
        refused_command(capsys, started, fact)
        assert not out.exists()

    monkeypatch.setattr(workers, "LOOK_S", 0.2)
    monkeypatch.setattr(workers, "LONELY_S", 0.5)
    assert_refused("has had no workers")

    monkeypatch.setattr(workers, "LONELY_S", START_S)
    processes.worker()
    monkeypatch.setattr("nicscope.kernel.fingerprint.package_stamp", lambda: "another")
    assert_refused("runs another nicscope")
    monkeypatch.undo()

    # The trace that workers find is another one: it changed after it was looked at.
    digest = "nicscope.studies.sweep.sweeping.content_digest"
    monkeypatch.setattr(digest, lambda _: "00")
    assert_refused("has other content there")
    monkeypatch.undo()

    assert main(started) == 0
    assert out.exists()


@pytest.mark.timeout(180)
def test_a_scheduler_that_dies_leaves_what_is_done(processes, trace, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(workers, "LOOK_S", 0.5)
    out = tmp_path / "o.parquet"
    journal = tmp_path / "o.parquet.journal"
    processes.worker()

    def kill_early():
        while lines_of(journal) < 9 and not out.exists():
            time.sleep(0.002)
        processes.running[0].kill()

    killer = threading.Thread(target=kill_early, daemon=True)
    killer.start()

    status = main(command(trace, out, "--scheduler", processes.address))

    killer.join(10)
    assert status == 2
    assert "the same command continues" in capsys.readouterr().err
    kept = lines_of(journal)
    assert kept >= 9
    assert main(command(trace, out)) == 0
    assert f"continuing: {kept - 1} of" in capsys.readouterr().err
