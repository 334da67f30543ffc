"""VMMC at work on two nodes, watched from outside: clocks, busy times and logs, never a price."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from nicscope.config.design import load_design, with_settings
from nicscope.drivers.simulate.log import Engine
from nicscope.interfaces.vmmc import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from nicscope.interfaces.vmmc import Endpoint

    Program = Callable[[Endpoint], Coroutine[Any, Any, Any]]

PAGE = 4096
SENDER = 1
KEEPER = 0
QUIET_US = 2000.0  # longer than anything is on its way
RECORDS = 1 << 16


def run_sender(
    program: Program, design: str = "utlb", kept: int = 2, **settings: object
) -> tuple[Cluster, Any]:
    """Run ``program`` on node 1, with ``kept`` pages exported by node 0 as "inbox"."""

    async def keep(endpoint: Endpoint) -> None:
        await endpoint.export(endpoint.allocate(kept * PAGE), "inbox")

    chosen = with_settings(load_design(design), [f"{name}={settings[name]}" for name in settings])
    cluster = Cluster(chosen, keep_log=RECORDS)
    cluster.start(KEEPER, keep)
    cluster.start(SENDER, program)
    return cluster, cluster.run()[1]


def in_us(ps: int) -> Decimal:
    """Exactly."""
    return Decimal(ps) / 10**6


def busy_ps(endpoint: Endpoint, what: str) -> int:
    """How long the ``processor`` or the ``pci`` engine of the endpoint's NIC has been at work."""
    assert endpoint.cluster.simulation is not None
    node: Any = endpoint.cluster.simulation.machine.nodes[endpoint.node]
    return int(node[f"{what}_busy"])


def last_byte_ps(endpoint: Endpoint, node: int) -> int:
    """When the last byte so far came to the host of ``node``."""
    assert endpoint.cluster.simulation is not None
    machine: Any = endpoint.cluster.simulation.machine
    log = machine.log[: int(machine.tally[0]["log"])]
    return int(log["end"][(log["engine"] == Engine.HOST_RCV) & (log["node"] == node)].max())


def now_ps(endpoint: Endpoint) -> int:
    """The program's clock, in whole ps."""
    return round(endpoint.now_us * 10**6)


def nic_hit_us(count: int = 20) -> Decimal:
    """What a lookup that hits takes of the sending NIC's processor.

    Stores of two bytes each, in two packets: over a border of pages here, and so with two lookups,
    or over one there, with one.  There is a lookup per packet at the other end in both cases.
    """
    return in_us(_stores_of_two(count, PAGE - 1, 0) - _stores_of_two(count, 0, PAGE - 1)) / count


def _stores_of_two(count: int, at: int, offset: int) -> int:
    async def program(endpoint: Endpoint) -> int:
        remote = await endpoint.import_buffer(KEEPER, "inbox")
        buffer = endpoint.allocate(2 * PAGE)
        # Everything is pinned, and everything is on both NICs.
        await endpoint.wait(await endpoint.store(remote, buffer))
        await endpoint.sleep(QUIET_US)
        before = busy_ps(endpoint, "processor")
        for _ in range(count):
            await endpoint.wait(await endpoint.store(remote, buffer, offset, at=at, length=2))
        await endpoint.sleep(QUIET_US)
        return busy_ps(endpoint, "processor") - before

    spent: int = run_sender(program)[1]
    return spent


def post_us(design: str) -> Decimal:
    """What a process's CPU takes to post a store of one page that was stored before."""

    async def program(endpoint: Endpoint) -> int:
        remote = await endpoint.import_buffer(KEEPER, "inbox")
        buffer = endpoint.allocate(PAGE)
        await endpoint.wait(await endpoint.store(remote, buffer))
        began = now_ps(endpoint)
        await endpoint.store(remote, buffer)
        return now_ps(endpoint) - began

    return in_us(run_sender(program, design)[1])
