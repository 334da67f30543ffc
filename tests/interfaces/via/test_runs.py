"""A cluster that is run again: nothing of the run before is there, however that ended."""

import pytest
from pairs import COHERENT, MECHANISMS, RECEPTION, Cluster, make_end

from nicscope.errors import SimulationError

DELIVERIES = [(mechanism, "store-and-forward") for mechanism in MECHANISMS]
DELIVERIES += [(mechanism, "cut-through") for mechanism in COHERENT]
LENGTH = 6000


def greet(cluster, stop_at=None):
    """Have one node send another messages; what it got, and when everything was done.

    ``stop_at``: a program on a third node fails at that time (us).
    """

    async def client(host):
        end = await make_end(host, RECEPTION, LENGTH)
        await end.nic.connect_request(end.vi, 1, "greetings")
        for number in range(3):
            await end.nic.write(end.out.address, bytes([number + 1] * 8))
            await end.nic.post_send(end.vi, end.send())
            await end.nic.send_wait(end.vi)
        return end.nic.now_ps

    async def server(host):
        end = await make_end(host, RECEPTION, LENGTH)
        for _ in range(3):
            await end.nic.post_recv(end.vi, end.receive())
        await end.nic.compute(50)
        await end.nic.connect_accept(await end.nic.connect_wait("greetings"), end.vi)
        found = []
        for _ in range(3):
            done = await end.nic.recv_wait(end.vi)
            found.append((done.ok, done.length, await end.nic.read(end.into.address, 8)))
        return found, end.nic.now_ps, end.nic.errors(end.vi), end.vi.number, end.into.address

    async def bystander(host):
        end = await make_end(host)
        await end.nic.compute(stop_at)
        raise SimulationError("stopped")

    cluster.renew()
    cluster.start(0, client)
    cluster.start(1, server)
    if stop_at is not None:
        cluster.start(2, bystander)
    return cluster.run()


@pytest.mark.parametrize(("mechanism", "delivery"), DELIVERIES)
def test_a_second_run_is_the_first_once_more(mechanism, delivery):
    how = {"mechanism": mechanism, "delivery": delivery, "loss": 0.1, "seed": 3}
    cluster = Cluster(**how)
    first = greet(cluster)

    assert greet(cluster) == first == greet(Cluster(**how))


@pytest.mark.parametrize(("mechanism", "delivery"), DELIVERIES)
def test_a_run_that_failed_in_the_midst_of_anything_leaves_nothing(mechanism, delivery):
    how = {"mechanism": mechanism, "delivery": delivery, "nodes": 3}
    expected = greet(Cluster(**how))
    cluster = Cluster(**how)
    for stop_at in (100, 200, 300):
        with pytest.raises(SimulationError, match="stopped"):
            greet(cluster, stop_at)
    assert greet(cluster) == expected


def test_a_request_for_a_connection_ends_with_its_run():
    async def asks(host):
        end = await make_end(host)
        await end.nic.connect_request(end.vi, 1, "x")

    async def fails(host):
        await (await host.open_nic()).compute(100)
        raise SimulationError("stopped")

    async def waits(host):
        end = await make_end(host)
        await end.nic.connect_wait("x", 500)

    cluster = Cluster()
    cluster.start(0, asks)
    cluster.start(1, fails)
    with pytest.raises(SimulationError, match="stopped"):
        cluster.run()
    cluster.renew()
    cluster.start(1, waits)
    with pytest.raises(SimulationError, match="nobody asked"):
        cluster.run()


def test_what_a_run_gave_is_of_an_earlier_run_for_the_next():
    kept = {}

    async def gives(host):
        kept["end"] = await make_end(host)

    async def takes(host):
        end = await make_end(host)
        await end.nic.post_send(kept["end"].vi, end.send())

    cluster = Cluster()
    cluster.start(0, gives)
    cluster.run()
    cluster.renew()
    cluster.start(0, takes)
    with pytest.raises(SimulationError, match="of an earlier run"):
        cluster.run()
