"""What threads have open is looked at anew, through few folders that stay open."""

import os
import stat
import subprocess

import pytest

from nicscope.traces.recording import connections
from nicscope.traces.recording.connections import Descriptors


def open_here():
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def test_a_descriptor_that_is_another_file_by_now_is_told_so():
    looked_at = Descriptors()
    reads, writes = os.pipe()
    before = looked_at.status(os.getpid(), reads)
    with open(os.devnull) as other:  # noqa: PTH123
        os.dup2(other.fileno(), reads)
        after = looked_at.status(os.getpid(), reads)
    os.close(reads), os.close(writes)
    with pytest.raises(FileNotFoundError):
        looked_at.status(os.getpid(), reads)
    looked_at.close()

    assert stat.S_ISFIFO(before.st_mode)
    assert stat.S_ISCHR(after.st_mode)


def test_many_threads_take_few_descriptors_and_in_the_end_none(monkeypatch):
    monkeypatch.setattr(connections, "MOST_FOLDERS", 2)
    looked_at = Descriptors()
    others = [subprocess.Popen(["sleep", "60"]) for _ in range(4)]
    before = open_here()
    for other in others + others:
        assert looked_at.status(other.pid, 0)
        assert open_here() <= before + 2
    looked_at.close()
    for other in others:
        other.kill()
        other.communicate()

    assert open_here() == before
