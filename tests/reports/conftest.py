"""What every command prints: asked of all of them once, in a minute, for all tests of reports."""

from __future__ import annotations

import tempfile
from pathlib import Path

import every_table as every
import pytest


@pytest.fixture(scope="session")
def everything():
    """What every command prints at 80 columns, and who has made its tables."""
    # Of a short name, as it is printed, which the tests' own folders have not everywhere.
    with tempfile.TemporaryDirectory() as short:
        with every.built() as callers:
            printed = [*every.printed(Path(short))]
        yield printed, callers


@pytest.fixture(scope="session")
def printed(everything):
    return everything[0]


@pytest.fixture(scope="session")
def reports(printed):
    """Every report of every command, as the commands make them."""
    return [report for one in printed for report in one.reports]
