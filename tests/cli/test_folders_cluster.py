"""A folder of traces on a real Dask cluster on loopback, one of whose two workers is killed."""

import signal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_folders_shared_out import columns, divided

from nicscope.cli.app import main
from nicscope.studies import workers
from refusals import refused_command

# Dask leaves loops and sockets to the garbage collector when a worker is killed.
pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*distributed.*"),
    pytest.mark.timeout(180),
]


def test_a_clusters_worker_killed_on_the_way_changes_nothing(
    processes, tmp_path, capsys, monkeypatch
):
    rows = columns(3000, 24)
    folder = divided(rows, rows["node"], tmp_path / "t")
    words = [str(folder), "--json"]
    replaying = ["replay", *words, "--design", "utlb"]
    assert main([*replaying, "--workers", "1"]) == 0
    alone = capsys.readouterr().out
    victim, _ = processes.worker(), processes.worker()
    ended = []
    result = workers.Cluster._result

    def kill_on_the_way(self, future):
        ended.append(future.key)
        if len(ended) == 4:
            victim.send_signal(signal.SIGKILL)
        return result(self, future)

    monkeypatch.setattr(workers.Cluster, "_result", kill_on_the_way)

    assert main([*replaying, "--scheduler", processes.address]) == 0

    assert capsys.readouterr() == (alone, "")
    assert victim.wait(10) == -signal.SIGKILL
    assert len(ended) == len(set(ended)) >= 24

    for measuring in (
        ["curve", *words, "--entries", "4..64"],
        ["size", *words, "--target-miss", "20%"],
        ["size", *words, "--nic-memory", "4KiB", "--only", "static"],
    ):
        assert main([*measuring, "--workers", "1"]) == 0
        alone = capsys.readouterr().out
        assert main([*measuring, "--scheduler", processes.address]) == 0
        assert capsys.readouterr() == (alone, "")


def test_what_a_clusters_worker_meets_is_one_line_that_names_it(processes, tmp_path, capsys):
    rows = columns(40, 2)
    folder = divided(rows, rows["node"], tmp_path / "t")
    processes.worker()
    words = ["replay", str(folder), "--design", "utlb", "--scheduler", processes.address]
    assert main(words) == 0
    capsys.readouterr()
    (folder / "part-0.parquet").unlink()  # alone the other is not looked into before
    broken = folder / "part-1.parquet"
    table = pq.read_table(broken)
    zeros = pa.array(np.zeros(table.num_rows, np.uint32))
    pq.write_table(table.set_column(table.column_names.index("length"), "length", zeros), broken)

    refused_command(capsys, words, "worker ", f"{broken}: row 0 (", "length is 0")
