"""Connections and descriptors against what has been measured of them."""

from __future__ import annotations

import pytest

from nicscope.studies.reproduce.harness import reproduce


def test_descriptors_come_out_as_known() -> None:
    found = reproduce(["today/t13", "today/t14", "today/t15", "today/t17"])

    assert found.as_known()
    assert {one.id for one in found.misses()} == {"t13", "t15", "t17"}


@pytest.mark.compiled
def test_rates_by_outstanding_operations_and_locks_come_out_as_known() -> None:
    found = reproduce(["today/t4", "today/t5", "today/t18"])

    assert found.as_known()
    [miss] = found.misses()
    assert miss.id == "t5"
    # Nothing but what is arithmetic, or was not chosen by the answers, is called predicted.
    assert sum(one.basis == "predicted" for one in [*found.points, *found.shapes]) == 2
