"""Threads of a program that use one queue of completions while each makes and destroys its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from nicscope.live.build import HERE, VERBS, compiler


@pytest.fixture
def threads(libraries, tmp_path):
    """The compiled program of ``threads.c``."""
    made = tmp_path / "threads"
    source = str(Path(__file__).with_name("threads.c"))
    words = [compiler(), "-O1", "-Wall", "-Werror", f"-I{HERE}", f"-I{libraries}", source]
    subprocess.run([*words, "-o", str(made), str(libraries / VERBS), "-lpthread"], check=True)
    return str(made)


@pytest.mark.long
def test_each_thread_is_told_of_all_that_it_has_asked_for(execute, threads):
    for _ in range(3):
        ended = execute("--json", "--", threads, "4", "10")

        assert ended.returncode == 0, ended.stderr
        assert json.loads(ended.stdout)["runs"][0]["messages_out"] == 4 * 10 * 8
