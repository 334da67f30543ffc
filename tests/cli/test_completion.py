"""What a shell offers: names of the catalog where one is asked for, files everywhere else."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from nicscope.cli import completion
from nicscope.config.shelf import shelf_names
from nicscope.traces.bundled import bundled_traces

MINI = [each for each in shelf_names("designs") if each.startswith("mini")]


def offered(*words):
    """What Bash would offer for the last of ``words``."""
    variables = {
        "_NICSCOPE_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(("nicscope", *words)),
        "COMP_CWORD": str(len(words)),
    }
    command = [sys.executable, "-m", "nicscope"]
    done = subprocess.run(
        command, env=os.environ | variables, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("lat",), ["latency"]),
        (("replay", "t.parquet", "--design", "utlb"), ["utlb", "utlb-process", "utlb-shared"]),
        (("simulate", "t.parquet", "--platform", "utlb-p"), ["utlb-prototype"]),
        (("designs", "show", "mini"), MINI),
        (("replay", "b"), [f"bundled:{name}" for name in bundled_traces()]),
        (("trace", "info", "bundled:ps"), []),
        (("curve", ""), []),
    ],
)
def test_a_shell_is_offered(words, wanted):
    assert offered(*words) == wanted


def test_every_name_of_the_catalog_is_offered():
    assert completion.designs("") == shelf_names("designs")
    assert completion.platforms("") == shelf_names("platforms")
