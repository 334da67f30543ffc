"""UTLB's Tables 1 and 2 and its fast path, measured on VMMC at work."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from nicscope.interfaces.ports import cluster
from nicscope.studies.reproduce.experiments.utlb.running import (
    _first_and_second,
    in_us,
    nic_hit_us,
    post_us,
    run_sender,
)
from nicscope.studies.reproduce.harness import reproduce


@pytest.mark.requirement("UT-70", "UT-71", "UT-72", "UT-4")
@pytest.mark.compiled
def test_the_running_system_takes_what_the_tables_say() -> None:
    found = reproduce([f"utlb/simulated_{name}" for name in ("fast_path", "table1", "table2")])

    assert found.all_ok()
    assert len(found.points) == 3 + 24 + 13
    assert len(found.shapes) == 4
    # Constants that come back, but for user_check, of which two prices are printed, and its sum.
    counted = {point.quantity for point in found.points if point.basis != "identity"}
    assert counted == {"hit[half=user] us", "hit[half=both] us"}


def dearer(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let the driver charge that step twice."""
    priced = cluster.service_costs

    def twice(*given: Any) -> Any:
        found = priced(*given)
        return found._replace(steps={**found.steps, name: 2 * found.steps[name]})

    monkeypatch.setattr(cluster, "service_costs", twice)


@pytest.mark.requirement("UT-70")
def test_a_lookup_charged_twice_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert nic_hit_us(3) == Decimal("0.8")
    dearer(monkeypatch, "lookup_send")
    assert nic_hit_us(3) == Decimal("1.6")


@pytest.mark.requirement("UT-70")
def test_a_check_charged_twice_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert post_us("utlb") - post_us("vmmc-static") == Decimal("0.5")
    dearer(monkeypatch, "check")
    assert post_us("utlb") - post_us("vmmc-static") == Decimal("1.0")


@pytest.mark.requirement("UT-72", "UT-32")
def test_a_miss_charged_twice_would_be_seen_and_so_would_its_dma(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert [in_us(part) for part in run_sender(_first_and_second)[1]] == [
        Decimal("1.5"),
        Decimal("1.8"),
    ]
    dearer(monkeypatch, "fetch")
    assert [in_us(part) for part in run_sender(_first_and_second)[1]] == [
        Decimal("1.5"),
        Decimal("3.6"),
    ]
    dearer(monkeypatch, "table_dma")
    assert in_us(run_sender(_first_and_second)[1][0]) == Decimal(3)
