"""Two processes of which one posts what may not be, beside what may."""

import port_world as world

HUGE = 2**63 - 1


def run(design, sender, receiver, **how):
    cluster = world.cluster_of(design, **how)
    results = world.run_on_nodes(cluster, sender, receiver)
    assert world.uses_left(cluster) == [0, 0]
    assert world.stale(cluster) == 0
    return results


async def nothing(process):
    await process.sleep(1)


async def register(process, address, length):
    """Have the library register memory that it exports, where that is its task."""
    from nicscope.drivers.simulate.records import GIVE_UP, REGISTER

    ended = await process._sim_process.ask(
        REGISTER, peer=process.port, address=address, payload=length
    )
    if ended.address == 0:
        # Kept pages would count as used; the tables keep what nobody else needs.
        await process._sim_process.ask(GIVE_UP, peer=process.port, address=address, payload=length)
    return ended.address
