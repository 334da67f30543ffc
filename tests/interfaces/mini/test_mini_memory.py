"""The account of a running NIC's memory."""

import numpy as np
import pytest

from nicscope.drivers.simulate.ports.build import Faults
from nicscope.drivers.simulate.ports.state import Ports
from nicscope.drivers.simulate.store import Store
from nicscope.errors import SimulationError
from nicscope.interfaces.mini import Cluster
from nicscope.interfaces.ports.nic_memory import (
    OF_WORK_QUEUES,
    ON_NIC,
    PLACES,
    WORD,
    nic_structures,
    total_by_group,
)
from nicscope.nic.ports.layout import NOBODY
from nicscope.nic.ports.streams import Pools
from program_results import results_of
from refusals import refused

PAGE, KB = 4096, 1024
DESIGNS = ("vmmc-static", "mini")


def run(design="mini", **options):
    async def program(end):
        await end.register(end.allocate(4096))

    cluster = Cluster(design, **options)
    results_of(cluster, program)
    return cluster


def test_every_array_of_the_simulation_has_its_place():
    assert set(PLACES) == {*Ports._fields, *Store._fields}


@pytest.mark.requirement("MI-11")
@pytest.mark.parametrize("design", ["mini", "vmmc-static"])
def test_groups_add_up_to_the_structures(design):
    cluster = run(design)
    memory = cluster.nic_memory(0)
    totals = total_by_group(cluster.simulation.machine, 0)

    assert sum(memory.values()) == sum(totals.values())
    assert all(totals[group] > 0 for group in ON_NIC)


@pytest.mark.requirement("MI-60", "MI-49")
def test_static_tables_are_on_the_nic_and_dynamic_ones_are_not():
    static, dynamic = run("vmmc-static").nic_memory(0), run().nic_memory(0)

    assert static["translations.frames"] == 65536 * 4
    assert "exports" in static
    assert "imports" in static
    assert not {"exports", "imports"} & set(dynamic)
    assert dynamic["translations.frames"] == 16384 * 4


@pytest.mark.requirement(
    "MI-51",
    weak="800 to 400 KB in all, as theirs of queues, buffers and code is not printed; 64 GB",
)
def test_lookups_shrink_to_a_quarter_and_the_rest_stays_as_it_is():
    static, dynamic = (total_by_group(run(each).simulation.machine, 0) for each in DESIGNS)
    before, after = static.pop("lookup"), dynamic.pop("lookup")

    assert static == dynamic
    # The paper has 520 and 130 KB.  Tables of 65,536 pages, 4,096 exports and imports are ours.
    assert before == pytest.approx(520 * KB, rel=0.1)
    assert after == pytest.approx(130 * KB, rel=0.1)
    assert 1 - after / before == pytest.approx(0.75, abs=0.02)


def test_what_firmware_keeps_of_each_line_is_on_its_nic():
    memory = run().nic_memory(0)

    assert memory["translations.uses"] == 16384 // 64
    assert memory["buffer_cache.uses"] == 1024
    assert memory["process_cache.uses"] == 64


def two_processes_each():
    """Two processes on node 0 that have stored to one each on node 1, three times and once."""

    async def writer(end):
        own = end.allocate(PAGE)
        await own.write(bytes([17 + end.number]) * PAGE)
        remote = await end.open(await end.find(f"inbox {end.number}"))
        for _ in range(3 - 2 * end.number):
            await end.write(remote, own)
        return [(await end.done()).ok for _ in range(3 - 2 * end.number)]

    async def owner(end):
        inbox = end.allocate(PAGE)
        await end.register(inbox, name=f"inbox {end.number}")
        for _ in range(3 - 2 * end.number):
            assert (await end.stored()).handle.process == end.process_handle
        return (await inbox.read())[0]

    cluster = Cluster()
    return cluster, results_of(cluster, (0, writer), (0, writer), (1, owner), (1, owner))


@pytest.mark.requirement("MI-7")
def test_each_process_has_a_send_a_completion_and_a_receive_queue_of_its_own_on_the_nic():
    cluster, (first, second, *_) = two_processes_each()
    machine = cluster.simulation.machine
    sent, came = machine.ports.table

    # Port 0 is the firmware's own.
    assert (first, second) == ([True] * 3, [True])
    assert sent["posted"].tolist()[1:] == sent["reported"].tolist()[1:] == [3, 1]
    assert came["received"].tolist()[1:] == came["read"].tolist()[1:] == [3, 1]
    assert came["posted"].tolist()[1:] == sent["received"].tolist()[1:] == [0, 0]
    found = nic_structures(machine, 0)
    for queue in ("requests", "segments", "reports", "free"):
        assert found[queue].group == "queues"
        (rows,) = found[queue].arrays
        assert rows.shape[:2] == (1, 3)  # node and port
        assert found[queue].byte_count % 3 == 0


@pytest.mark.requirement("MI-10")
def test_data_pass_through_a_buffer_of_either_nic():
    cluster, (*_, one, two) = two_processes_each()
    store = cluster.simulation.machine.store

    assert (one, two) == (17, 18)
    for buffers in (store.send_buffers[0], store.receive_buffers[1]):
        held = {int(byte) for byte in np.unique(buffers)}
        assert {17, 18} & held
    assert not store.receive_buffers[0].any()
    assert not store.send_buffers[1].any()
    assert nic_structures(cluster.simulation.machine, 0)["send_buffers"].group == "buffers"


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

    return cluster, results_of(cluster, owner, guest)[0]


@pytest.mark.requirement("MI-47")
def test_buffers_and_connections_are_as_many_as_are_asked_for_and_cost_the_nic_nothing():
    (few, _), (many, last) = with_buffers(3), with_buffers(5000)

    assert last == b"the last"
    assert many.directory.in_use(0) == (5000, 0)
    assert many.directory.in_use(1) == (0, 5000)
    assert sum(few.nic_memory(0).values()) == sum(many.nic_memory(0).values())


@pytest.mark.requirement("MI-60")
def test_static_tables_are_of_one_size_and_refuse_what_is_more():
    with refused(SimulationError, "4096 registered buffers"):
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
    results_of(cluster, user, owner)
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
