"""Tests of VIA are tests of both libraries, unless one says what it needs of one machine."""

from __future__ import annotations

import pairs
import pytest

# Modules whose subject is the machine that only one library has, or what it tells of that.
OF_ITS_OWN_MACHINE = {
    "test_combinations": "translation caches in place of VI-MSG's own steps",
    "test_document": "what docs/via.md prints",
    "test_via_report": "rows of the report that are of VI-MSG's staging and turns",
}

# Modules that say so themselves.
ON_PORTS = (
    "test_before_what_is_asked",
    "test_descriptors_over_the_bus",
    "test_through_a_switch",
)


def pytest_generate_tests(metafunc):
    """Run each test once by library."""
    alone = metafunc.module.__name__ in OF_ITS_OWN_MACHINE or getattr(
        metafunc.function, "of_its_own_machine", ""
    )
    names = [pairs.ALONE] if alone else list(pairs.LIBRARIES)
    if metafunc.module.__name__ in ON_PORTS:
        names = ["ports"]
    metafunc.parametrize("library", names, indirect=True, scope="module")


@pytest.fixture(autouse=True, scope="module")
def library(request):
    """The library under test."""
    pairs.chosen = request.param
    yield request.param
    pairs.chosen = pairs.ALONE
