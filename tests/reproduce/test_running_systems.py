"""Tables of U-Net/MM and UTLB, and pinned memory, as running systems show them."""

from decimal import Decimal

import pytest

from nicscope.interfaces.ports import cluster
from nicscope.studies.reproduce.experiments import unet_mm
from nicscope.studies.reproduce.experiments.unet_mm import (
    COLUMNS,
    MAPPED_NT,
    PAGES,
    UNET_PCA200,
    receive,
    sends,
)
from nicscope.studies.reproduce.experiments.utlb import (
    _first_and_second,
    in_us,
    nic_hit_us,
    post_us,
    run_sender,
)
from nicscope.studies.reproduce.harness import find_experiment, reproduce
from suite import INTERPRETED


@pytest.mark.requirement("UM-80", "UM-81", "UM-82", "UM-79a", "UM-79b", "UM-87")
def test_every_step_of_table_1_comes_out_of_running_systems(monkeypatch):
    if INTERPRETED:
        monkeypatch.setattr(unet_mm, "ROUNDS", 10)
    found = reproduce(["unet_mm/simulated_table1"])
    assert len(found.points) == 41
    assert len(found.shapes) == 5
    assert [point.quantity for point in found.points if not point.ok] == []
    assert [shape.evidence for shape in found.shapes if not shape.ok] == []


@pytest.mark.compiled
@pytest.mark.requirement("UM-59c", "UM-55")
def test_pinned_memory_depends_on_the_table_and_not_on_who_uses_it(monkeypatch):
    monkeypatch.setattr(unet_mm, "PROCESSES", [1, 4, 8, 10])
    outcome = find_experiment("unet_mm", "pinned_memory")(None)
    assert [evidence for holds, evidence in outcome.shapes.values() if not holds] == []
    counts = [int(count) for count in outcome.values.values()]
    assert counts == [PAGES * count for count in unet_mm.PROCESSES]


@pytest.mark.requirement("UM-71")
@pytest.mark.parametrize("column", COLUMNS.values(), ids=list(COLUMNS))
def test_a_side_of_the_machine_that_does_not_serve_takes_no_time(column):
    seen = receive(column, 1498)
    idle, busy = (seen.nic_us, seen.host_us) if "dc21140" in column[1] else (
        seen.host_us, seen.nic_us,
    )  # fmt: skip
    assert set(idle.values()) == {0.0}
    assert all(spent > 0 for spent in busy.values())


def charged(monkeypatch, step, times):
    """Let the driver charge that step so many times."""
    priced = cluster.service_costs

    def other(*given):
        found = priced(*given)
        return found._replace(steps={**found.steps, step: times * found.steps[step]})

    monkeypatch.setattr(cluster, "service_costs", other)


def test_a_step_that_is_not_charged_is_seen(monkeypatch):
    """The numbers are measured: a system without its queue handling does not show Table 1."""
    charged(monkeypatch, "serve_request", 0)
    assert sends(UNET_PCA200)["hit"] == 0
    assert sends(MAPPED_NT)["hit"] == pytest.approx(4)


@pytest.mark.requirement("UT-70", "UT-71", "UT-72", "UT-4")
@pytest.mark.compiled
def test_the_running_system_takes_what_the_tables_say():
    found = reproduce([f"utlb/simulated_{name}" for name in ("fast_path", "table1", "table2")])

    assert found.misses() == []
    assert len(found.points) == 3 + 24 + 13
    assert len(found.shapes) == 4
    # Constants that come back, but for user_check, of which two prices are printed, and its sum.
    counted = {point.quantity for point in found.points if point.basis != "identity"}
    assert counted == {"hit[half=user] us", "hit[half=both] us"}


@pytest.mark.requirement("UT-70")
@pytest.mark.parametrize(
    ("step", "taken", "us"),
    [
        ("lookup_send", lambda: nic_hit_us(3), Decimal("0.8")),
        ("check", lambda: post_us("utlb") - post_us("vmmc-static"), Decimal("0.5")),
    ],
)
def test_a_lookup_or_check_charged_twice_would_be_seen(step, taken, us, monkeypatch):
    assert taken() == us
    charged(monkeypatch, step, 2)
    assert taken() == 2 * us


@pytest.mark.requirement("UT-72", "UT-32")
def test_a_miss_charged_twice_would_be_seen_and_so_would_its_dma(monkeypatch):
    def parts():
        return [in_us(part) for part in run_sender(_first_and_second)[1]]

    assert parts() == [Decimal("1.5"), Decimal("1.8")]
    charged(monkeypatch, "fetch", 2)
    assert parts() == [Decimal("1.5"), Decimal("3.6")]
    charged(monkeypatch, "table_dma", 2)
    assert parts()[0] == Decimal(3)
