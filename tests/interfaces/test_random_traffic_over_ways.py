"""Random programs over every way: four processes store, fetch, read and write, on two hosts."""

import random

import pytest

from nicscope.config.design import Way, load_design, with_settings
from nicscope.drivers.simulate.ports.build import Faults, HostSize
from nicscope.interfaces import vmmc
from nicscope.interfaces.ways import BY_PROCESSOR
from pairwise import in_turn

PROCESSES = 4
# Of a table each process has a stretch of its own; none begins or ends with a block or a page.
STRETCH = 1_337
SIZE = PROCESSES * STRETCH
STEPS = 9


def side(me, cluster_seed, endpoint_of):
    """One process, and what it expects of each table at its end."""

    async def program(endpoint):
        draw = random.Random(f"{cluster_seed} {me}")
        table = endpoint.allocate(SIZE)
        await endpoint.export(table, f"table{me}", allow=1 - endpoint.node)
        endpoint_of[me] = table
        others = [one for one in range(PROCESSES) if one % 2 != me % 2]
        remotes = {one: await endpoint.import_buffer(one % 2, f"table{one}") for one in others}
        room, back = endpoint.allocate(STRETCH + 100), endpoint.allocate(STRETCH + 100)
        expected = {one: bytearray(STRETCH) for one in (*others, me)}
        for _ in range(STEPS):
            count = draw.choice((1, 7, 64, 130, 700, STRETCH))
            at = draw.randrange(STRETCH - count + 1)
            shift = draw.randrange(100)
            content = draw.randbytes(count)
            where = draw.choice((*others, me))
            if where == me:  # of its own table, beside what others store
                await table.write(content, me * STRETCH + at)
                assert await table.read(count, me * STRETCH + at) == content
            else:
                await room.write(content, shift)
                part = room.part(shift, count)
                sent = await endpoint.store(remotes[where], part, me * STRETCH + at)
                assert (await endpoint.wait(sent)).ok
            expected[where][at : at + count] = content
            where = draw.choice(others)
            fetched = await endpoint.fetch(remotes[where], back.part(shift, STRETCH), me * STRETCH)
            assert (await endpoint.wait(fetched)).ok
            assert await back.read(STRETCH, shift) == expected[where]
        await endpoint.sleep(20_000)
        return expected, await table.read()

    return program


# Every way, with and without losses in turn; of all three each with each in the long tests.
@pytest.mark.parametrize(
    ("way", "loss", "seed"), in_turn(pytest.mark.long, Way, [0.05, 0.0], [0, 0, 1, 1])
)
def test_random_stores_and_fetches_leave_the_bytes_that_they_should(way, loss, seed):
    whole = ["delivery=store-and-forward"] if way in BY_PROCESSOR else []
    name = ("utlb", "vmmc-static")[seed % 2]
    parts = [f"way={way}", *whole]
    if name == "utlb":
        parts.append("pin_limit=6")
    design = with_settings(load_design(name), parts)
    cluster = vmmc.Cluster(
        design, "utlb-edt", faults=Faults(loss=loss, seed=seed), host=HostSize(frames=40)
    )
    tables = {}
    for me in range(PROCESSES):
        cluster.start(me % 2, side(me, seed, tables))
    results = cluster.run()

    for owner, (_, found) in enumerate(results):
        for writer, (expected, _) in enumerate(results):
            if owner in expected:
                stretch = found[writer * STRETCH : (writer + 1) * STRETCH]
                assert stretch == expected[owner], (owner, writer)
    assert (cluster.simulation.machine.ports.nodes["stale"] == 0).all()
