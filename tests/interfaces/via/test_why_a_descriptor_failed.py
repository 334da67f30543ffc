"""A descriptor that ended with an error says which of its segments, and where its region lies."""

import pytest

from nicscope.interfaces import via
from nicscope.interfaces.via.descriptor import AddressSegment, DataSegment, Return, Status, VipError
from program_results import results_of


def failure(post, room=4096, write=True, offered=True, wait="send_wait"):
    """What ``post(nic, vi, places, own, there)`` of a connected VI fails with, where ``wait`` is.

    ``room``: bytes of the other side's receive; ``write``: whether its VI, ``offered``: whether its
    memory may be written from afar.
    """
    regions = []

    async def program(host, connects):
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        vi = await nic.create_vi(tag, enable_rdma_write=write)
        places = await nic.descriptors(tag, segments=4)
        own = await nic.register_mem(nic.allocate(4096), tag, enable_rdma_write=offered)
        regions.append(own)
        await nic.post_recv(vi, places.request(own.segment(0, room)))
        if not connects:
            await nic.connect_accept(await nic.connect_wait("here"), vi)
            if wait == "recv_wait":
                await nic.recv_wait(vi)
            return
        await nic.connect_request(vi, 1, "here")
        await post(nic, vi, places, own, next(each for each in regions if each.node == 1))
        if wait == "send_wait":
            await nic.send_wait(vi)

    cluster = via.Cluster()
    with pytest.raises(VipError) as caught:
        results_of(cluster, lambda host: program(host, True), lambda host: program(host, False))
    assert caught.value.code is Return.VIP_DESCRIPTOR_ERROR
    return caught.value.descriptor, str(caught.value)


def spelt(address, length):
    return f"{address:#x} to {address + length:#x}"


def test_a_segment_beyond_its_region_is_named_with_both_ranges():
    said = []

    async def post(nic, vi, places, own, *_):
        said.append((spelt(own.address + 4000, 200), spelt(own.address, 4096)))
        await nic.post_send(vi, places.request(own.segment(0, 8), own.segment(4000, 200)))

    descriptor, told = failure(post)

    [(segment, region)] = said
    assert descriptor.status & Status.VIP_STATUS_PROTECTION_ERROR
    assert told.endswith(
        "ended with VIP_STATUS_PROTECTION_ERROR; "
        f"segment 2, {segment}, is not in its region, {region}"
    )


def test_a_segment_of_no_region_and_one_of_another_tag_are_named():
    async def unknown(nic, vi, places, own, *_):
        await nic.post_send(vi, places.request(DataSegment(own.address, 999, 8)))

    assert failure(unknown)[1].endswith("of no registered memory: nothing has handle 999")

    async def foreign(nic, vi, places, *_):
        other = await nic.register_mem(nic.allocate(64), await nic.create_ptag())
        await nic.post_send(vi, places.request(other.segment()))

    assert "segment 1, " in failure(foreign)[1]
    assert "is of a region with protection tag" in failure(foreign)[1]


def test_a_message_longer_than_its_receive_says_what_that_has():
    async def post(nic, vi, places, own, *_):
        await nic.post_send(vi, places.request(own.segment(0, 500)))

    descriptor, told = failure(post, room=100, wait="recv_wait")

    assert descriptor.status & Status.VIP_STATUS_LENGTH_ERROR
    assert told.endswith("longer than its receive's segments, which have 100 bytes")


@pytest.mark.parametrize(
    ("offset", "how", "words"),
    [
        (4000, {}, "is not in its region on node 1, 0x"),
        (0, {"offered": False}, "was registered on node 1 without enable_rdma_write"),
        (0, {"write": False}, "the VI on node 1 was created without enable_rdma_write"),
    ],
)
def test_an_rdma_that_is_refused_says_why(offset, how, words):
    async def post(nic, vi, places, own, there):
        await nic.rdma_write(vi, places, [own.segment(0, 200)], there.remote(offset))

    descriptor, told = failure(post, **how)

    assert descriptor.status & Status.VIP_STATUS_RDMA_PROT_ERROR
    assert words in told


def test_an_rdma_to_what_is_not_registered_says_so():
    async def post(nic, vi, places, own, there):
        where = AddressSegment(there.address, 999)
        await nic.rdma_write(vi, places, [own.segment(0, 8)], where)

    assert failure(post)[1].endswith("is not registered on node 1: nothing has handle 999")
