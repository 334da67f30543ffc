"""A mutant's trial: the tests nearest to it first, then those of all that stands on it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from places import Mutant

_SECONDS = 600  # of one trial: a mutant that never ends counts as caught
_ON_TRANSLATION = ("tests/drivers", "tests/drivers_simulate/test_traced_counts.py")
_ON_PORTS = ("tests/ports", "tests/drivers_simulate", "tests/interfaces")
# What stands on a file or folder, nearest first; a survivor of these is shown.
_TESTS = {
    "nic/translate": (*_ON_TRANSLATION, "tests/ports"),
    "nic/coherent": ("tests/nic", "tests/drivers_bus", "tests/interfaces"),
    "nic/ways": ("tests/drivers_bus", "tests/interfaces"),
    "nic/ports": ("tests/nic", *_ON_PORTS),
    "nic/transport": ("tests/nic", *_ON_PORTS),
    "nic/reception": ("tests/nic", *_ON_PORTS),
    "nic/delivery": ("tests/nic", "tests/drivers_simulate"),
    "nic": ("tests/nic", *_ON_TRANSLATION),
    "host": _ON_PORTS,
    "memory/coherence": ("tests/drivers_bus", "tests/interfaces"),
    "memory/paging": ("tests/memory", *_ON_PORTS),
    "memory": ("tests/memory", *_ON_TRANSLATION),
}


@dataclass(frozen=True)
class Trial:
    """A copy of the checkout that may be broken."""

    root: Path


def copied_tree(root: Path, to: Path) -> Trial:
    """A copy of ``root`` at ``to``, without what is no part of the project.

    Errors: ``SubprocessError`` if git cannot list the files.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (root / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, to / name)
    return Trial(to)


def survives(mutant: Mutant, trial: Trial) -> bool:
    """Whether every test passes with ``mutant`` in place."""
    file = trial.root / mutant.path
    original = file.read_text()
    file.write_text(mutant.code)
    try:
        return _pass(_tests_of(mutant.path), trial.root)
    finally:
        file.write_text(original)


def _tests_of(path: Path) -> tuple[str, ...]:
    return next(tests for part, tests in _TESTS.items() if f"nicscope/{part}" in path.as_posix())


def _pass(tests: tuple[str, ...], root: Path) -> bool:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = {
        **os.environ,
        "CI": "1",  # the same examples each time
        "NUMBA_DISABLE_JIT": "1",
        "HYPOTHESIS_PROFILE": "checked",  # examples enough to fall over what is broken
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(root / "src"),
    }
    process = subprocess.Popen(
        command,
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(_SECONDS) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
