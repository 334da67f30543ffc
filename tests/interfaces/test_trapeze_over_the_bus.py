"""Trapeze with its NIC at a coherent bus: the same bytes as over PCI, in this bus's time."""

import pytest

from nicscope.config.design import POLICIES
from nicscope.config.platform import load_platform
from nicscope.interfaces import trapeze
from program_results import results_of

PLATFORM = "p6-natoma-edt"
WAYS = ("pci", "cc-dma-retry", "cc-dma-intervention")
TEXT = bytes(range(1, 251)) * 33


def ping_pong(way, policy="adaptive", size=8000, times=3):
    """What each side received, both hosts' memory from 0 on, and when the last answer had come."""
    cluster = trapeze.Cluster(PLATFORM, policy=policy, way=way, keep_log=1000)
    seen = []

    async def ping(endpoint):
        page = endpoint.allocate(8192)
        for number in range(times):
            await page.write(bytes([number]) + TEXT[: size - 1])
            endpoint.reserve(5)[:] = b"hello"
            await endpoint.send(1, page.part(0, size))
            message = await endpoint.receive()
            seen.append((message.scan(5), bytes(message.payload)))
            endpoint.release(message)
        return endpoint.now_us

    async def pong(endpoint):
        page = endpoint.allocate(8192)
        for _ in range(times):
            message = await endpoint.receive()
            content = bytes(message.payload)
            seen.append((message.scan(5), content))
            endpoint.release(message)
            await page.write(content[::-1])
            endpoint.reserve(5)[:] = b"again"
            await endpoint.send(0, page.part(0, len(content)))

    ended = results_of(cluster, ping, pong)[0]
    return seen, [bytes(cluster.memory(node)) for node in (0, 1)], ended, cluster


@pytest.mark.parametrize("policy", [*POLICIES])
def test_the_same_bytes_arrive_over_every_way(policy):
    over_pci, *others = (ping_pong(way, policy) for way in WAYS)

    assert over_pci[0][0] == (b"hello", b"\0" + TEXT[:7999])
    assert over_pci[0][1] == (b"again", (b"\0" + TEXT[:7999])[::-1])
    assert [each[:2] for each in others] == [over_pci[:2]] * 2


def test_a_cache_that_supplies_what_it_has_modified_saves_writing_it_back_first():
    # Each payload is stored just before it is sent, so every block of it is dirty.  Cut-through may
    # hide what that takes behind the link.
    supplied, written_back = (
        ping_pong(way, "store-and-forward")[2] for way in ("cc-dma-intervention", "cc-dma-retry")
    )
    assert supplied < written_back


def test_cut_through_takes_bytes_off_the_bus_before_the_last_has_come():
    whole, parts = (
        ping_pong("cc-dma-intervention", policy)[2] for policy in ("store-and-forward", "adaptive")
    )
    fetch = 8000 / load_platform(PLATFORM).machine["dma_mbytes_s"].value  # us, of one payload

    assert whole - parts > 6 * fetch  # of six payloads, and of their delivery some besides


def test_its_report_and_log_are_as_over_pci():
    over_pci, over_the_bus = (ping_pong(way)[3].report() for way in WAYS[::2])

    for one, other in zip(over_pci.nodes, over_the_bus.nodes, strict=True):
        assert (one.messages_out, one.bytes_out) == (other.messages_out, other.bytes_out) != (0, 0)
