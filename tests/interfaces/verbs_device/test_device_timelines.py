"""What a device keeps of a run: every packet by the queue pair and the request that it is of."""

import pytest
from device_world import World

from nicscope.drivers.simulate.ports.build import Faults
from nicscope.interfaces.run_timeline import MOST_RECORDS
from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.calls import Caps
from nicscope.interfaces.verbs_device.device import Device
from nicscope.interfaces.verbs_device.fabric import Fabric

CAPS = Caps(8, 8, 4, 4, 64)


@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_every_request_of_a_port_that_changes_hands_keeps_its_own_name(loss):
    world = World("utlb", keep_log=MOST_RECORDS, faults=Faults(seed=5, loss=loss)).connect(retry=7)
    one, its_peer = world.pairs
    world.receive(1, 1)
    world.send(0, 7)
    world.to_other(8, calls.WR_WRITE, 5000)
    world.to_other(9, calls.WR_READ)
    world.to_other(10, calls.WR_FETCH_ADD, 8, compare_add=1)
    assert world.statuses(0, 4) == [(number, calls.SUCCESS) for number in (7, 8, 9, 10)]
    world.ended(1)
    for pair in world.pairs:
        world.device.free_qp(pair)
    world.pairs = [world.pair(i, CAPS) for i in range(2)]
    world.connect(retry=7)
    world.to_other(7, calls.WR_WRITE)
    assert world.statuses(0) == [(7, calls.SUCCESS)]

    source = world.device.fabric.source()
    names = [*source.log().packets.values()]
    first, second = f"QP {one:#x}", f"QP {world.pairs[0]:#x}"
    for wanted in (
        f"{first} SEND, wr_id 7",
        f"{first} RDMA_WRITE, wr_id 8",
        f"{first} RDMA_READ, wr_id 9",
        f"{first} RDMA_READ answer, wr_id 9",
        f"{first} ATOMIC_FETCH_AND_ADD, wr_id 10",
        f"{first} ATOMIC_FETCH_AND_ADD answer, wr_id 10",
        f"{second} RDMA_WRITE, wr_id 7",
    ):
        assert wanted in names, names
    if loss == 0:
        assert names.count(f"{first} RDMA_WRITE, wr_id 8") == 5  # packets of at most 1024 bytes
        assert names.count(f"{second} RDMA_WRITE, wr_id 7") == 1
        # Who held the port then, and not who has it now.
        assert {f"QP {number:#x} ACK" for number in (its_peer, world.pairs[1])} <= {*names}


def test_no_record_is_kept_unless_somebody_asks():
    found = Device("utlb").fabric.source().log()
    assert found.records.size == 0
    assert Fabric("utlb", nodes=2, keep_log=10).keeps == 10
