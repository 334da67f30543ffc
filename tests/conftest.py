"""Makes ``tests/oracle`` importable as ``oracle`` and sets how hard Hypothesis tries."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from nicscope.cli import progress

sys.path.insert(0, str(Path(__file__).parent))

# Compiled code is what the first of the three ways tests: it is waited for.
os.environ.setdefault("NICSCOPE_COMPILE", "wait")

# Tables are as wide as wherever the tests are run says, and tests are run anywhere.
os.environ["COLUMNS"] = "100"

# Without the compiler, or with its bounds checks, an example costs many times more.
SLOW = any(os.environ.get(name) == "1" for name in ("NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"))

settings.register_profile(
    "default",
    deadline=None,  # the first example pays for compilation
    max_examples=100,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", settings.get_profile("default"), max_examples=25)
settings.load_profile("quick" if SLOW else "default")


# Folders and files whose tests enter no kernel, or only by the way: the three ways of ``make test``
# would run them three times for nothing.  All run without the compiler, where coverage is measured.
ONCE = {
    "config", "fuzz", "mutation", "oracle", "outputs", "reports", "traces_recording",
    "test_errors.py", "test_imports.py", "test_inputs.py",
}  # fmt: skip
# Whole commands and studies: what they run is tested with bounds checks by itself.
WHOLE = {"cli", "kernel", "reproduce", "studies"}


def pytest_collection_modifyitems(items):
    """Mark the tests that not every way of ``make test`` runs."""
    root = Path(__file__).parent
    for item in items:
        place = item.path.relative_to(root).parts[0]
        if place in ONCE:
            item.add_marker(pytest.mark.once)
        if place in WHOLE:
            item.add_marker(pytest.mark.whole)


@pytest.fixture(autouse=True)
def no_progress_lines(monkeypatch):
    """Commands say nothing of how far they are: what tests compare must not depend on the time."""
    monkeypatch.setattr(progress, "PATIENCE_S", 3600.0)
