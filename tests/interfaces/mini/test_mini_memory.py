"""The account of a running NIC's memory."""

from __future__ import annotations

import pytest

from nicscope.drivers.simulate.ports.build import PortSize
from nicscope.drivers.simulate.ports.state import Ports
from nicscope.drivers.simulate.store import Store
from nicscope.interfaces.mini import Cluster
from nicscope.interfaces.mini.memory import ON_NIC, PLACES, nic_structures, total_by_group


def run(design="mini", **options):
    async def program(end):
        await end.register(end.allocate(4096))

    cluster = Cluster(design, **options)
    cluster.start(0, program)
    cluster.run()
    return cluster


def test_every_array_of_the_simulation_has_its_place():
    assert set(PLACES) == {*Ports._fields, *Store._fields}


@pytest.mark.requirement("MI-51")
@pytest.mark.requirement("MI-11")
@pytest.mark.parametrize("design", ["mini", "vmmc-static"])
def test_groups_add_up_to_the_structures(design):
    cluster = run(design)
    memory = cluster.nic_memory(0)
    totals = total_by_group(cluster.simulation.machine, 0)

    assert sum(memory.values()) == sum(totals.values())
    assert all(totals[group] > 0 for group in ON_NIC)


@pytest.mark.requirement("MI-60")
@pytest.mark.requirement("MI-49")
def test_static_tables_are_on_the_nic_and_dynamic_ones_are_not():
    static, dynamic = run("vmmc-static").nic_memory(0), run().nic_memory(0)

    assert static["translations.frames"] == 65536 * 4
    assert "exports" in static
    assert "imports" in static
    assert not {"exports", "imports"} & set(dynamic)
    assert dynamic["translations.frames"] == 16384 * 4


@pytest.mark.requirement("MI-7")
@pytest.mark.requirement("MI-10")
def test_queues_and_buffers_are_on_the_nic_for_each_process():
    one = nic_structures(run().simulation.machine, 0)
    three = nic_structures(run(ports=3).simulation.machine, 0)

    assert one["send_buffers"].group == "buffers"
    # Two ports, the firmware's own among them, or four.
    assert 2 * one["requests"].byte_count == three["requests"].byte_count
    assert 2 * one["reports"].byte_count == three["reports"].byte_count


@pytest.mark.requirement("MI-47")
def test_dynamic_memory_does_not_grow_with_the_host_tables():
    few, many = (
        sum(run(size=PortSize(exports=size, imports=size)).nic_memory(0).values())
        for size in (16, 5000)
    )

    assert few == many
