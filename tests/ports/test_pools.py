"""What is kept for pairs of nodes is made when they first talk, and its room grows unseen."""

import numpy as np
import port_world as world
import pytest
import report_world as made
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from nicscope.drivers.simulate.ports.build import Faults, HostSize, PortSize, Transport
from nicscope.errors import RoomError
from nicscope.fabric import paths as paths_of
from nicscope.interfaces.vmmc import Cluster
from nicscope.memory_limit import available_bytes
from nicscope.nic.ports import streams as pools_of
from nicscope.nic.ports.layout import FETCH, SEND, WRITE
from nicscope.nic.ports.streams import BLANK, NO_ENTRY, POOLS, STREAM, stream_to
from refusals import refused
from suite import share

MANY = 1000  # nodes
# Of a stream: where its packets and stores lie in the pools, which depends on what was free.
PLACES = {"oldest_kept", "newest_kept", "stores"}
GROWING = {"pools", "pool", "stream_of", "routes", "path_of", "path", "summary", "wanted"}


def arrays(state, at=""):
    """Every array of a state, by its name."""
    found = {}
    for name, field in zip(state._fields, state, strict=True):
        if hasattr(field, "_fields"):
            found |= arrays(field, f"{at}{name}.")
        else:
            found[at + name] = field
    return found


def told(machine):
    """All that a run leaves behind, but for where in its pools something lies."""
    found = {
        f"{name}.{field}": np.ascontiguousarray(array[field] if field else array).tobytes()
        for name, array in arrays(machine).items()
        if not GROWING.intersection(name.split(".")) and name != "calls"
        for field in array.dtype.names or ("",)
    }
    ports = machine.ports
    for n in range(len(machine.nodes)):
        for d in range(len(machine.nodes)):
            stream = stream_to(ports, n, d)
            own = [int(stream[name]) for name in STREAM.names if name not in PLACES]
            found[f"stream {n} {d}"] = np.array(own).tobytes()
            found[f"stores {n} {d}"] = ports.pools.storing[stream["stores"]].tobytes()
            found[f"kept {n} {d}"] = b"".join(
                ports.pools.packets[entry].tobytes() + ports.pools.inline[entry].tobytes()
                for entry in chain(ports.pools, stream["oldest_kept"])
            )
    return found


def chain(pools, entry):
    """The entries of a chain of packets."""
    found = []
    while entry != NO_ENTRY:
        found.append(int(entry))
        entry = pools.behind[entry]
    return found


def check_pools(machine):
    """No entry is lost or in two chains, and nobody wrote to the stream of those who never talk."""
    ports = machine.ports
    pools, pool = ports.pools, ports.pool[0]
    numbers = ports.stream_of[ports.stream_of != BLANK]
    assert sorted(numbers) == list(range(BLANK + 1, pool["streams"]))
    kept = [entry for s in numbers for entry in chain(pools, pools.streams[s]["oldest_kept"])]
    assert len(kept) == pool["kept"]
    assert sorted(kept + chain(pools, pool["unused"])) == list(range(pools.behind.size))
    fresh = pools_of.new_pools(1, 1, np.zeros(1, POOLS))
    assert pools.streams[BLANK] == fresh.streams[BLANK]
    assert not pools.storing["message"][0].any()


def two_talk(nodes):
    """The machine of a cluster on which two nodes have stored and fetched."""
    cluster = Cluster("utlb", nodes=nodes, host=HostSize(frames=16, pages_per_space=16))

    async def owner(end):
        await end.export(end.allocate(4096), "area")
        await end.notification()

    async def user(end):
        remote = await end.import_buffer(0, "area")
        own = end.allocate(4096)
        await end.wait(await end.fetch(remote, own))
        assert (await end.wait(await end.store(remote, own, notify=True))).ok

    world.run_on_nodes(cluster, owner, user)
    return cluster.simulation.machine


def test_two_of_a_thousand_nodes_that_talk_cost_the_pairs_that_do_not_one_number_each():
    machine = two_talk(MANY)
    ports, found = machine.ports, arrays(machine)

    squares = {name for name, array in found.items() if array.shape.count(MANY) > 1}
    assert squares == {"ports.stream_of", "paths.path_of"}
    assert sum(found[name].nbytes for name in squares) == 2 * 4 * MANY**2
    assert max(array.nbytes for name, array in found.items() if "pools." in name) < 1 << 20
    assert ports.pool[0]["streams"] == BLANK + 1 + 2
    assert machine.paths.summary[0]["made"] == 1 + 2
    check_pools(machine)


@pytest.mark.parametrize("design", ["vmmc-static", "unet-mm-pca200", "mini", "utlb"])
@share(0.2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    plans=made.moves((SEND, WRITE, FETCH)),
    faults=made.networks,
    window=st.sampled_from([1, 4, 32]),
    reliable=st.booleans(),
)
def test_pools_that_grow_in_the_middle_of_a_run_change_nothing(
    monkeypatch, design, plans, faults, window, reliable
):
    transport = Transport(reliable=reliable, window=window, time_out_ps=500_000_000, most_retries=3)

    def run(first):
        with monkeypatch.context() as changed:
            changed.setattr(pools_of, "FIRST", first)
            changed.setattr(paths_of, "FIRST", first)
            cluster, _ = made.run(design, plans, 4, 16, faults=faults, transport=transport)
        check_pools(cluster.simulation.machine)
        return told(cluster.simulation.machine)

    small, large = run(1), run(1000)
    assert [name for name in large if small[name] != large[name]] == []


def all_to_all(monkeypatch, first, **how):
    monkeypatch.setattr(pools_of, "FIRST", first)
    monkeypatch.setattr(paths_of, "FIRST", first)
    nodes = 6
    cluster = Cluster("utlb", nodes=nodes, **how)

    async def program(end):
        area = end.allocate(nodes * 4096)
        await end.export(area, "area")
        far = [
            await end.import_buffer((end.node + step) % nodes, "area") for step in range(1, nodes)
        ]
        own = end.allocate(4096)
        last = [  # more than fits the pool, when all streams are there already
            await end.store(remote, own, end.node * 4096, length=100 + turn)
            for turn in range(8)
            for remote in far
        ]
        for request in last:
            await end.wait(request)
        await end.sleep(1_000_000)

    for node in range(nodes):
        cluster.start(node, program)
    cluster.run()
    return cluster.simulation.machine


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_every_pool_grows_when_all_talk_and_all_that_was_kept_is_given_back(monkeypatch, loss):
    how = {"faults": Faults(seed=3, loss=loss), "size": PortSize(imports=16)}
    small = all_to_all(monkeypatch, 1, **how)
    large = all_to_all(monkeypatch, 1000, **how)

    assert told(small) == told(large)
    sizes = {name: len(array) for name, array in arrays(small.ports.pools).items()}
    monkeypatch.setattr(pools_of, "FIRST", 1)
    shapes = pools_of.pool_shapes(small.ports.table.shape[1], small.sends.shape[1])
    first = {name: shape[0] for name, (shape, _) in shapes.items()}
    assert all(sizes[name] > first[name] for name in sizes)
    assert small.paths.routes.hops.size > 6 * 5
    assert small.ports.pool[0]["kept"] == large.ports.pool[0]["kept"] == 0
    check_pools(small)


def test_packets_to_a_peer_that_dies_are_kept_no_longer(monkeypatch):
    faults = Faults(node_deaths={2: 500_000_000})
    transport = Transport(time_out_ps=100_000_000, most_retries=2)
    how = {"faults": faults, "transport": transport, "size": PortSize(imports=16)}
    machine = all_to_all(monkeypatch, 1, **how)

    assert any(stream_to(machine.ports, n, 2)["dead"] for n in range(6))
    alive = [n for n in range(6) if n != 2]
    assert [stream_to(machine.ports, n, 2)["oldest_kept"] for n in alive] == [NO_ENTRY] * 5
    check_pools(machine)


def test_a_pool_that_cannot_grow_says_so_in_one_line(monkeypatch):
    left = available_bytes()
    if left is None:
        pytest.skip("the system does not say what memory is left")
    monkeypatch.setattr(pools_of, "FIRST", 1)
    cluster = world.cluster_of("vmmc-static", nodes=4)

    async def program(process):
        monkeypatch.setattr("nicscope.memory_limit.available_bytes", lambda: 0)
        for node in range(1, 4):
            world.join(process, node, node, 0)
            await process.post_inline(SEND, node, b"x")
        await process.sleep(10_000)

    cluster.start(0, program)
    with refused(RoomError, "nodes"):
        cluster.run()
