"""A process that forks: its child has no part in the device, and may open one of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

from nicscope.live.build import HERE, VERBS, compiler


def test_parent_and_child_go_on_with_a_device_each(execute, libraries, tmp_path):
    program = tmp_path / "forking"
    source = Path(__file__).with_name("forking.c")
    words = [compiler(), "-Wall", "-Werror", f"-I{HERE}", str(source), "-o", str(program)]
    subprocess.run([*words, str(libraries / VERBS)], check=True)

    assert execute("--json", "--", str(program)).returncode == 0
