"""The real pyverbs of Debian, on the live device, with the tests that its package brings."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path("/usr/share/doc/rdma-core/tests")
PYTHON = "/usr/bin/python3"
# By what is run: how many of its tests pass.  The others need what the device does not have.
QUICK = {"AHTest": 1, "test_query_device": 2, "PDTest": 4}
ALL = {
    "test_addr": 3,
    "test_device": 13,
    "test_pd": 4,
    "test_mr": 5,
    "test_resize_cq": 1,
    "test_cq_events": 2,
    "test_create": 8,
    "test_rc_traffic": 1,
    "test_ud_traffic": 1,
    "test_qp_ex_rc": 6,
}


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """A folder with the tests; skips where they, or pyverbs, are not installed."""
    asked = [PYTHON, "-I", "-c", "import pyverbs"]
    if not TESTS.is_dir() or subprocess.run(asked, capture_output=True, check=False).returncode:
        pytest.skip("needs a package: python3-pyverbs")
    folder = tmp_path_factory.mktemp("pyverbs") / "tests"
    folder.mkdir()
    for each in TESTS.iterdir():
        if not re.match("test_(mlx5|efa|cuda)", each.name):
            content = each.read_bytes()
            content = gzip.decompress(content) if each.suffix == ".gz" else content
            (folder / each.name.removesuffix(".gz")).write_bytes(content)
    return folder


def passed(said):
    """Names of the tests that passed, of those that ``unittest -v`` has told of."""
    said = re.sub("nicscope: running: .*\n", "", said)
    return set(re.findall(r"^(\w+) \([\w.]+\)(?:\n.*?)? \.\.\. ok$", said, re.MULTILINE))


def run_live(execute, suite, pattern):
    words = ("env", "-u", "PYTHONPATH", PYTHON, str(suite / "run_tests.py"), "-v", "-k", pattern)
    ended = execute("--json", "--", *words)
    assert ended.returncode == 0, ended.stderr
    return passed(ended.stderr)


@pytest.mark.parametrize("pattern", QUICK)
def test_a_few_of_its_own_tests_pass(execute, suite, pattern):
    assert len(run_live(execute, suite, pattern)) >= QUICK[pattern]


@pytest.mark.long  # real time-outs and hundreds of messages
@pytest.mark.parametrize("pattern", ALL)
def test_what_passes_on_the_live_device_passes_under_verbs_run(execute, suite, pattern):
    found = run_live(execute, suite, pattern)
    words = [sys.executable, "-m", "nicscope", "verbs", "run", str(suite / "run_tests.py"), "-v"]
    done = subprocess.run(
        [*words, "-k", pattern], capture_output=True, text=True, env=os.environ, check=False
    )

    assert len(found) >= ALL[pattern]
    assert done.returncode == 0, done.stderr
    assert found <= passed(done.stderr)


@pytest.mark.long
def test_the_connection_manager_connects_rejects_and_joins_groups(execute, suite):
    assert len(run_live(execute, suite, "test_rdmacm")) == 10
