"""What a NIC cannot move by itself its host's CPU does: amid whatever else it does."""

import pytest

from nicscope.config.design import load_design, with_settings
from nicscope.drivers.simulate.observe import Engine
from nicscope.drivers.simulate.ports.build import Faults
from nicscope.drivers.simulate.records import COMPUTING, INTERRUPTED
from nicscope.interfaces import vmmc
from nicscope.interfaces.ways import BY_PROCESSOR
from nicscope.memory.coherence.layout import WRITE_BACK
from program_results import results_of

BY_HOST = ("pio", "pio-combined", "dma", "cni")
EVERY = (*BY_HOST, "cc-dma-retry", "cc-dma-intervention", "edt")
NS = 1_000
US = 1_000 * NS
HALF, BLOCK, BLOCKS, ROUNDS = 64, 128, 4, 3


def cluster_over(way, loss=0.0, name="utlb", **how):
    whole = ["delivery=store-and-forward"] if way in BY_PROCESSOR else []
    design = with_settings(load_design(name), [f"way={way}", "transport=reliable", *whole])
    return vmmc.Cluster(design, "utlb-edt", faults=Faults(loss=loss, seed=3), **how)


def halves_of_blocks(way, loss, rounds=ROUNDS):
    """A table of which its owner writes one half of each block, and another node the other."""
    cluster = cluster_over(way, loss)
    size = BLOCK * BLOCKS

    async def owner(endpoint):
        table = endpoint.allocate(size)
        await table.write(bytes(size))
        await endpoint.export(table, "table", allow=1)
        seen = bytearray(BLOCKS)
        passes = 0
        while any(one != rounds for one in seen):  # as one does who polls memory
            passes += 1
            assert passes < 2000  # what was stored is seen some time
            for k in range(BLOCKS):
                half = await table.read(HALF, k * BLOCK)
                assert len(set(half[:4])) == 1  # a word is never of two stores
                assert half[0] >= seen[k]  # nor older than it was
                seen[k] = half[HALF - 1]
                await table.write(bytes([100 + seen[k]]) * HALF, k * BLOCK + HALF)
            await endpoint.compute(3)
        return await table.read()

    async def user(endpoint):
        remote = await endpoint.import_buffer(0, "table")
        rooms = [endpoint.allocate(HALF) for _ in range(BLOCKS)]
        for turn in range(1, rounds + 1):
            sent = []
            for k, room in enumerate(rooms):
                await room.write(bytes([turn]) * HALF)
                sent.append(await endpoint.store(remote, room, k * BLOCK))
            for one in sent:
                assert (await endpoint.wait(one)).ok

    return results_of(cluster, owner, user)[0], cluster


@pytest.mark.parametrize("loss", [0.0, 0.05])
@pytest.mark.parametrize("way", EVERY)
def test_nobody_loses_or_reads_stale_what_shares_a_block_with_what_arrives(way, loss):
    found, cluster = halves_of_blocks(way, loss)

    for k in range(BLOCKS):
        block = found[k * BLOCK : (k + 1) * BLOCK]
        assert block[:HALF] == bytes([ROUNDS]) * HALF
        assert block[HALF:] == bytes([100 + ROUNDS]) * HALF
    interrupts = cluster.report().nodes[0].interrupts
    assert (interrupts >= ROUNDS * BLOCKS) == (way in BY_HOST)


def stored_while_computing(way, size=BLOCK):
    """The log of a node that computes while a store arrives, and when its program was done."""
    cluster = cluster_over(way, name="vmmc-static", keep_log=1000)

    async def owner(endpoint):
        table = endpoint.allocate(4096)
        await table.write(b"\x07" * size)  # dirty in the cache
        await endpoint.export(table, "table", allow=1)
        begun = endpoint.now_us
        await endpoint.compute(2000)
        return endpoint.now_us - begun

    async def user(endpoint):
        remote = await endpoint.import_buffer(0, "table")
        await endpoint.sleep(400)
        room = endpoint.allocate(4096)
        await endpoint.wait(await endpoint.store(remote, room.part(0, size)))

    took = results_of(cluster, owner, user)[0]
    machine = cluster.simulation.machine
    return took, machine.log[: machine.tally[0]["log"]], cluster


def test_a_store_under_plain_dma_takes_an_interrupt_a_flush_and_the_transfer_of_the_cpu():
    took, log, cluster = stored_while_computing("dma")
    (moved,) = log[(log["node"] == 0) & (log["engine"] == Engine.HOST_RCV) & (log["bytes"] > 0)]
    work = log[(log["node"] == 0) & (log["engine"] == Engine.CPU)]
    (handled,) = work[work["task"] == INTERRUPTED]

    # The engine is begun, interrupts and is set up when the CPU has flushed; that holds its
    # breath until the engine has written the block and is done.
    assert handled["start"] == moved["start"] + 10 * US
    assert handled["end"] == moved["end"]
    # Instruction 2, second level 10, arbitration 10 and up to an edge, ordered 30 later, data 80;
    # then set-up 300, the same up to the order, data 80, the engine's end 500.
    edge = 10 * NS
    asks = handled["start"] + 12 * NS + 10 * NS
    flushed = -(-asks // edge) * edge + 110 * NS
    granted = -(-(flushed + 310 * NS) // edge) * edge
    assert handled["end"] == granted + (30 + 80 + 500) * NS
    assert cluster.simulation.machine.bus.hosts.counts[0, 0, WRITE_BACK] == 1
    # What the program did takes so much longer, and is computing for as long as it asked.
    assert round((took - 2000) * US) == handled["end"] - handled["start"]
    (before,) = work[work["end"] == handled["start"]]
    (after,) = work[work["start"] == handled["end"]]
    assert before["task"] == after["task"] == COMPUTING
    assert before["end"] - before["start"] + after["end"] - after["start"] == 2000 * US


def test_a_nic_that_reaches_memory_by_itself_interrupts_nobody():
    took, log, _ = stored_while_computing("cc-dma-intervention")

    assert took == 2000
    assert INTERRUPTED not in log[log["engine"] == Engine.CPU]["task"]
