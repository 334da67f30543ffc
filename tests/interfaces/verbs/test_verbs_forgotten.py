"""What a program has forgotten is closed: by itself alone, and whatever hangs together."""

import gc
import random
import threading

import pytest
from verbs_beginnings import ENDS
from verbs_ends import open_context, refused
from verbs_worlds import collected

import nicscope as ns
from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.base import World, bind_world
from nicscope.interfaces.verbs.cq import CQ, CompChannel
from nicscope.interfaces.verbs.device import DM, AllocDmAttr
from nicscope.interfaces.verbs.mr import DMMR, MR, MW, PD
from nicscope.interfaces.verbs.qp import QP, QPInitAttr
from nicscope.interfaces.verbs.wr import SRQ, SrqAttr, SrqInitAttr
from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.device import Device
from oracle.verbs_device import TwinDevice

LOCAL = e.IBV_ACCESS_LOCAL_WRITE
HELD = {
    TwinDevice: ("qps", "cqs", "srqs", "mrs", "mws", "dms", "pds"),
    Device: ("_pairs", "_queues", "_shared", "_regions", "_windows", "_dms", "_domains"),
}


def held(device):
    """How many of each kind of thing the device has, queue pairs first and domains last."""
    return [len(getattr(device, name)) for name in HELD[type(device)]]


def circle(world, seed=0):
    """One of each kind of thing, and all of them hold each other; only the device knows them."""
    context = open_context(world)
    pd, channel = PD(context), CompChannel(context)
    cq = CQ(context, 8, channel=channel)
    srq = SRQ(pd, SrqInitAttr(SrqAttr(max_wr=4)))
    qps = [QP(pd, QPInitAttr(e.IBV_QPT_RC, scq=cq, rcq=cq, srq=srq)) for _ in range(2)]
    mr, mw, dm = MR(pd, 64, LOCAL), MW(pd, e.IBV_MW_TYPE_2), DM(context, AllocDmAttr(64))
    on_card = DMMR(pd, 64, LOCAL | e.IBV_ACCESS_ZERO_BASED, dm, 0)
    found = [context, pd, channel, cq, srq, *qps, mr, mw, dm, on_card]
    random.Random(seed).shuffle(found)
    for each in found:
        each.others = found


@pytest.mark.parametrize("seed", range(3))
def test_all_that_hangs_in_one_circle_is_closed_in_the_order_that_the_device_takes(world, seed):
    circle(world, seed)
    assert held(world.device) == [2, 1, 1, 2, 1, 1, 1]
    gc.collect()
    assert held(world.device) == [0] * 7


@pytest.fixture(params=[TwinDevice, Device])
def two_worlds(request):
    with collected():
        made = (TwinDevice(calls), TwinDevice(calls))
        if request.param is Device:
            made = Device(), Device()
        yield [World(device, node) for node, device in enumerate(made)]


def in_thread_of(world, job):
    """What ``job`` gives in a thread whose program runs on ``world``."""
    found = []

    def run():
        bind_world(world)
        found.append(job())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found.pop()


def test_what_another_nodes_thread_collects_is_closed_by_its_own_program(two_worlds):
    own, other = two_worlds
    before = held(own.device)
    in_thread_of(own, lambda: circle(own))
    begun = held(own.device)
    in_thread_of(other, gc.collect)  # which counts nothing, as it lets all of that live
    assert held(own.device) == begun != before  # nobody may ask for anything in its name
    in_thread_of(own, lambda: open_context(own).close())
    assert held(own.device) == before


def test_what_cannot_be_closed_yet_is_as_it_was(device_world):
    context = open_context(device_world)
    pd = PD(context)
    imported = PD(context, handle=pd.handle)
    mr = MR(imported, 64, LOCAL)
    with refused("EBUSY", "Failed to close a PD"):
        pd.close()
    mr.close()
    pd.close()
    assert held(device_world.device)[-1] == 0


LEAVES = (
    ENDS
    + """
    qp = pair()
    qp.itself = qp
    number, where = exchange("end", (qp.qp_num, gid))[1 - me]
    connect(qp, number, where)
    qp.post_recv(RecvWR(num_sge=1, sg=piece(8)))
    exchange("ready", None)
    if me == 1:
        while context.query_rt_values_ex()[1] < 5 * 10**6:  # the other has ended by then
            cq.poll()
        qp.post_send(SendWR(num_sge=1, sg=piece(8)))
        print("status", ended().status)
"""
)


def test_a_program_that_has_ended_answers_nobody_though_its_pair_hung_in_a_circle(program, capsys):
    path = program("leaves", LEAVES)
    ns.run_verbs(nodes={node: [path, str(node)] for node in range(2)})
    assert capsys.readouterr().out == f"status {e.IBV_WC_RETRY_EXC_ERR.value}\n"
