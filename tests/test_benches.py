"""Rates that a bench prints are those of compiled code, however the bench is started."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"
SCRIPTS = sorted(BENCH.glob("bench_*.py"))
MODE = "from nicscope.kernel.mode import MODE; print(MODE.name)"


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
