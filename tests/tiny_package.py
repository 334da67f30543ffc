"""A package of its own around copies of the modules that compile, run in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nicscope

PACKAGE = Path(nicscope.__file__).parent
COMPILING = ("errors",)


def make_tiny(root: Path) -> Path:
    """The folder of package ``tiny`` in ``root``, with the modules that compile."""
    package = root / "tiny"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    room = [path.relative_to(PACKAGE) for path in (PACKAGE / "kernel").rglob("*.py")]
    for path in (*(Path(f"{name}.py") for name in COMPILING), *room):
        source = (PACKAGE / path).read_text().replace("nicscope.", "tiny.")
        (package / path).parent.mkdir(parents=True, exist_ok=True)
        (package / path).write_text(source)
    return package


def run_tiny(root: Path, script: str, cache: Path, **environment: str) -> list[str]:
    """The words that ``script`` prints beside the package in ``root``."""
    # -B: a .pyc of the same second and size would hide an edit from Python itself.
    done = subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", script],
        cwd=root,
        env={
            "PATH": os.environ["PATH"],
            "NUMBA_CACHE_DIR": str(cache),
            "PYTHONPATH": str(root),
            "NICSCOPE_COMPILE": "wait",
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()
