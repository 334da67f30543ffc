"""A port that is not closed, because the call is refused, keeps all that was given to it."""

import pytest

from nicscope.errors import SimulationError
from nicscope.interfaces import mini, vmmc
from program_results import results_of
from refusals import refused

PAGE = 4096
NOT_PORTS = [99, 0, 2, -1, 2**70, True, 1.5, "1"]


def state(cluster):
    """What the node has written down, of exports, imports and pinned pages."""
    ports = cluster.simulation.machine.ports
    return [
        cluster.directory.in_use(0),
        cluster.directory._names.copy(),
        ports.table["open"].tolist(),
        ports.shared.exports.tolist(),
        ports.shared.imports.tolist(),
        ports.memory.hosts["pinned"].tolist(),
    ]


async def refuses_all(endpoint):
    before = state(endpoint.cluster)
    for wrong in NOT_PORTS:
        with refused(SimulationError, "port"):
            await endpoint.close_port(wrong)
        assert state(endpoint.cluster) == before


async def neighbour(endpoint):
    """Has port 2."""


@pytest.mark.parametrize("design", ["utlb", "vmmc-static"])
def test_vmmc_gives_nothing_up_with_a_port_that_is_refused(design):
    async def closes(endpoint):
        table, other, mine = (endpoint.allocate(2 * PAGE) for _ in range(3))
        exported = await endpoint.export(table, "mine")
        await endpoint.redirect(exported, other)
        imported = await endpoint.import_buffer(1, "theirs")
        await refuses_all(endpoint)
        assert (await endpoint.wait(await endpoint.store(imported, mine))).ok
        await endpoint.unexport(exported)
        endpoint.release(imported)
        return endpoint.cluster.directory.in_use(0)

    async def exports(endpoint):
        await endpoint.export(endpoint.allocate(2 * PAGE), "theirs")

    cluster = vmmc.Cluster(design)
    assert results_of(cluster, (0, closes), (0, neighbour), (1, exports))[0] == (0, 0)


@pytest.mark.parametrize("design", ["mini", "vmmc-static"])
def test_mini_gives_nothing_up_with_a_port_that_is_refused(design):
    async def closes(end):
        table, mine = end.allocate(PAGE), end.allocate(PAGE)
        region = await end.register(table, name="mine")
        remote = await end.open(await end.find("theirs"))
        await refuses_all(end)
        await end.write(remote, mine, 64, notify=False)
        assert (await end.done()).ok
        await end.unregister(region)
        await end.close(remote)
        return end.cluster.directory.in_use(0)

    async def registers(end):
        await end.register(end.allocate(PAGE), name="theirs")

    cluster = mini.Cluster(design)
    assert results_of(cluster, (0, closes), (0, neighbour), (1, registers))[0] == (0, 0)
