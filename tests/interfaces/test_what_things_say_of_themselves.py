"""What programs hold prints as one short line, whose and where; and VIA's words are VIPL's."""

import pytest

from nicscope.interfaces import Cluster
from nicscope.interfaces.via import Control, Error, Reliability, Return, State, Status, VipError
from nicscope.interfaces.via.descriptor import SystemInfo
from program_results import results_of


def told_by(word, program):
    """What ``program`` returns, run as the second process of node 1."""
    cluster = Cluster(word)

    async def rest(_):
        return None

    return results_of(cluster, (0, rest), (1, rest), (1, program))[2]


def test_an_endpoint_of_unet_says_its_name_and_its_place():
    async def program(process):
        endpoint = await process.open("pong")
        told = [repr(endpoint), repr(process), repr(endpoint.allocate(4096))]
        await endpoint.close()
        return [*told, repr(endpoint)]

    assert told_by("unet-mm-pca200", program) == [
        "<Endpoint 'pong' of node 1, process 1, U-Net>",
        "<Process of node 1, process 1, U-Net>",
        "Buffer(0x0, 4096 bytes, node 1, process 1)",
        "<Endpoint 'pong' of node 1, process 1, U-Net, closed>",
    ]


@pytest.mark.parametrize(("word", "name"), [("utlb", "VMMC"), ("mini", "miNI")])
def test_so_do_those_of_vmmc_and_mini(word, name):
    async def program(endpoint):
        first = endpoint.allocate(4096)
        part = endpoint.allocate(8192).part(4096, 100)
        return repr(endpoint), repr(first), repr(part)

    endpoint, first, part = told_by(word, program)

    assert endpoint == f"<Endpoint of node 1, process 1, {name}>"
    assert first == "Buffer(0x0, 4096 bytes, node 1, process 1)"
    assert part == "Buffer(0x2000, 100 bytes, node 1, process 1)"


def test_a_message_of_trapeze_says_who_sent_it():
    cluster = Cluster("trapeze")

    async def sender(endpoint):
        page = endpoint.allocate(512)
        await endpoint.send(1, page)
        return repr(endpoint), repr(page)

    async def receiver(endpoint):
        return repr(await endpoint.receive())

    (endpoint, page), message = results_of(cluster, sender, receiver)

    assert endpoint == "<Endpoint of node 0, process 0, Trapeze>"
    assert page.startswith("HostBuffer(0x")
    assert page.endswith(", 512 bytes, node 0, process 0)")
    assert message == "<Message 0 from node 0, 512 bytes>"


def test_a_vi_and_its_descriptors_say_it_in_vipl():
    async def program(host):
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        vi = await nic.create_vi(tag)
        queue = await nic.create_cq(tag, 8)
        places = await nic.descriptors(tag)
        room = await nic.register_mem(nic.allocate(4096), tag)
        descriptor = places.request(room.segment(0, 100))
        await nic.post_recv(vi, descriptor)
        told = [repr(host), repr(nic), repr(vi), repr(queue), repr(descriptor)]
        try:
            await nic.connect_wait("nobody", timeout_us=5.0)
        except VipError as error:
            told.append(f"{error.code}")
        return told

    host, nic, vi, queue, descriptor, code = told_by("via", program)

    assert host == "<Host of node 1, process 1, VIA>"
    assert nic == "<Nic of node 1, process 1, VIA>"
    assert vi.endswith(" of node 1, process 1, VIP_STATE_IDLE>")
    assert queue.endswith(" of node 1, process 1, 8 entries>")
    assert descriptor == "<Descriptor of 100 bytes, VIP_CONTROL_OP_SENDRECV: not done>"
    assert code == "VIP_TIMEOUT"


@pytest.mark.parametrize("kind", [Reliability, State, Error, Return, SystemInfo])
def test_every_word_of_via_prints_as_it_is_spelt(kind):
    for word in kind:
        assert str(word) == f"{word}" == word.name
        assert f"{word:d}" == str(int(word))


def test_a_status_prints_every_word_in_it_and_its_operation_once():
    done = Status.VIP_STATUS_DONE

    assert str(Status(0)) == "0"
    assert str(done | Status.VIP_STATUS_OP_RECEIVE) == "VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE"
    wrote = done | Status.VIP_STATUS_OP_REMOTE_RDMA_WRITE | Status.VIP_STATUS_IMMEDIATE
    assert f"{wrote}" == (
        "VIP_STATUS_DONE | VIP_STATUS_OP_REMOTE_RDMA_WRITE | VIP_STATUS_IMMEDIATE"
    )
    assert str(Status(0x1000 | 0x1)) == "VIP_STATUS_DONE | 0x1000"
    assert str(Control(0x0)) == "VIP_CONTROL_OP_SENDRECV"
    assert str(Control(0x6)) == "VIP_CONTROL_OP_RDMAREAD | VIP_CONTROL_IMMEDIATE"
    assert str(Control(0x9)) == "VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_QFENCE"
