"""U-Net/MM's Table 1 and pinned memory, as running systems show them."""

import pytest

from nicscope.studies.reproduce.experiments.unet_mm import pinning, running
from nicscope.studies.reproduce.experiments.unet_mm.pinning import PAGES
from nicscope.studies.reproduce.experiments.unet_mm.steps import (
    COLUMNS,
    MAPPED_NT,
    UNET_PCA200,
    receive,
    sends,
)
from nicscope.studies.reproduce.harness import find_experiment, reproduce
from suite import INTERPRETED


@pytest.mark.requirement("UM-80", "UM-81", "UM-82", "UM-79a", "UM-79b", "UM-87")
def test_every_step_of_table_1_comes_out_of_running_systems(monkeypatch):
    if INTERPRETED:
        monkeypatch.setattr(running, "ROUNDS", 10)
    found = reproduce(["unet_mm/simulated_table1"])
    assert len(found.points) == 41
    assert len(found.shapes) == 5
    assert [point.quantity for point in found.points if not point.ok] == []
    assert [shape.evidence for shape in found.shapes if not shape.ok] == []


@pytest.mark.compiled
@pytest.mark.requirement("UM-59c", "UM-55")
def test_pinned_memory_depends_on_the_table_and_not_on_who_uses_it(monkeypatch):
    monkeypatch.setattr(pinning, "PROCESSES", [1, 4, 8, 10])
    outcome = find_experiment("unet_mm", "pinned_memory")(None)
    assert [evidence for holds, evidence in outcome.shapes.values() if not holds] == []
    counts = [int(count) for count in outcome.values.values()]
    assert counts == [PAGES * count for count in pinning.PROCESSES]


@pytest.mark.requirement("UM-71")
@pytest.mark.parametrize("column", COLUMNS.values(), ids=list(COLUMNS))
def test_a_side_of_the_machine_that_does_not_serve_takes_no_time(column):
    seen = receive(column, 1498)
    idle, busy = (seen.nic_us, seen.host_us) if "dc21140" in column[1] else (
        seen.host_us, seen.nic_us,
    )  # fmt: skip
    assert set(idle.values()) == {0.0}
    assert all(spent > 0 for spent in busy.values())


def test_a_step_that_is_not_charged_is_seen(monkeypatch):
    """The numbers are measured: a system without its queue handling does not show Table 1."""
    from nicscope.interfaces.ports import cluster

    true = cluster.service_costs

    def without_queues(*arguments):
        made = true(*arguments)
        return made._replace(steps={**made.steps, "serve_request": 0})

    monkeypatch.setattr(cluster, "service_costs", without_queues)
    assert sends(UNET_PCA200)["hit"] == 0
    assert sends(MAPPED_NT)["hit"] == pytest.approx(4)
