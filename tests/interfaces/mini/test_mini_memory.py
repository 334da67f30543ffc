"""The account of a running NIC's memory."""

from __future__ import annotations

import numpy as np
import pytest

from nicscope.drivers.simulate.ports.build import Faults
from nicscope.drivers.simulate.ports.state import Ports
from nicscope.drivers.simulate.store import Store
from nicscope.errors import SimulationError
from nicscope.interfaces.mini import Cluster
from nicscope.interfaces.mini.memory import (
    OF_WORK_QUEUES,
    ON_NIC,
    PLACES,
    WORD,
    nic_structures,
    total_by_group,
)
from nicscope.nic.ports.layout import NOBODY
from nicscope.nic.ports.pools import Pools

PAGE = 4096


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


def with_buffers(many, design="mini"):
    """A cluster in which two processes have registered and opened so many buffers."""
    cluster = Cluster(design)

    async def owner(end):
        arena = end.allocate(many * 8)
        for i in range(many):
            await end.register(arena.part(8 * i, 8), name=f"buffer {i}")
        await end.stored()
        return await arena.read(8, 8 * (many - 1))

    async def guest(end):
        own = end.allocate(8)
        await own.write(b"the last")
        opened = [await end.open(await end.find(f"buffer {i}", 1.0)) for i in range(many)]
        await end.write(opened[-1], own)
        assert (await end.done()).ok

    cluster.start(0, owner)
    cluster.start(1, guest)
    return cluster, cluster.run()[0]


@pytest.mark.requirement("MI-47")
def test_buffers_and_connections_are_as_many_as_are_asked_for_and_cost_the_nic_nothing():
    (few, _), (many, last) = with_buffers(3), with_buffers(5000)

    assert last == b"the last"
    assert many.directory.in_use(0) == (5000, 0)
    assert many.directory.in_use(1) == (0, 5000)
    assert sum(few.nic_memory(0).values()) == sum(many.nic_memory(0).values())


@pytest.mark.requirement("MI-60")
def test_static_tables_are_of_one_size_and_refuse_what_is_more():
    with pytest.raises(SimulationError, match="has all its 4096 registered buffers in use"):
        with_buffers(4097, "vmmc-static")


def served_by_a_lossy_network(design):
    """A cluster between whose nodes all that miNI has has crossed, some of it more than once."""

    async def user(end):
        own = end.allocate(3 * PAGE)
        remote = await end.open(await end.find("inbox"))
        for offset in range(0, 6 * PAGE, PAGE // 2):
            await end.write(remote, own.part(0, PAGE), offset=offset)
            await end.done()
        await end.read(remote, own, offset=PAGE)
        await end.done()

    async def owner(end):
        await end.register(end.allocate(8 * PAGE), name="inbox")
        await end.stored()

    cluster = Cluster(design, faults=Faults(seed=3, loss=0.1, duplication=0.1, reordering=0.1))
    cluster.start(0, user)
    cluster.start(1, owner)
    cluster.run()
    return cluster


@pytest.mark.parametrize("design", ["mini", "vmmc-static"])
def test_what_is_not_counted_of_a_record_holds_nothing_whatever_the_firmware_has_done(design):
    machine = served_by_a_lossy_network(design).simulation.machine
    state = {**machine.ports._asdict(), **machine.store._asdict()}
    state |= {f"pools.{name}": getattr(machine.ports.pools, name) for name in Pools._fields}
    held = {
        f"{name}.{field}": set(np.unique(state[name][field]).tolist())
        for name, fields in OF_WORK_QUEUES.items()
        for field in fields
    }

    assert {field: values for field, values in held.items() if values - {0, NOBODY}} == {}
    assert machine.ports.told.sum() > 0


def test_a_record_on_a_mini_nic_has_the_words_that_its_firmware_uses():
    cluster = run()
    machine = cluster.simulation.machine
    structures = nic_structures(machine, 0)
    words = {
        name: structures[name].byte_count // WORD // machine.ports._asdict()[name][0].size
        for name in ("requests", "segments", "table", "channels", "send_heads", "arrival_heads")
    }

    # Fields that only others' firmware has, a new one of theirs too, belong into OF_WORK_QUEUES.
    assert words == {
        "requests": 10,
        "segments": 2,
        "table": 43,
        "channels": 12,
        "send_heads": 29,
        "arrival_heads": 29,
    }
