"""What a program has forgotten is closed: by itself alone, and whatever hangs together."""

from __future__ import annotations

import gc
import random
import threading
from textwrap import dedent

import pytest
from verbs_ends import open_context, refused
from verbs_worlds import collected

import nicscope as ns
from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.cq import CQ, CompChannel
from nicscope.interfaces.verbs.device import DM, AllocDmAttr
from nicscope.interfaces.verbs.mr import DMMR, MR, MW
from nicscope.interfaces.verbs.pd import PD
from nicscope.interfaces.verbs.qp import QP, QPInitAttr
from nicscope.interfaces.verbs.srq import SRQ, SrqAttr, SrqInitAttr
from nicscope.interfaces.verbs.world import World, run_here
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
        run_here(world)
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


ENDS = """
    import sys
    import pyverbs.libibverbs_enums as e
    from nicscope.verbs import exchange
    from pyverbs.addr import GID, AHAttr, GlobalRoute
    from pyverbs.cq import CQ
    from pyverbs.device import Context, get_device_list
    from pyverbs.mr import MR
    from pyverbs.pd import PD
    from pyverbs.qp import QP, QPAttr, QPInitAttr
    from pyverbs.wr import SGE, RecvWR, SendWR

    me = int(sys.argv[1])
    context = Context(name=get_device_list()[0].name.decode())
    pd, cq = PD(context), CQ(context, 16)
    mr = MR(pd, 64, e.IBV_ACCESS_LOCAL_WRITE)
    qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq))
    qp.itself = qp
    number, gid = exchange("end", (qp.qp_num, str(context.query_gid(1, 1))))[1 - me]
    attr = QPAttr(port_num=1, path_mtu=e.IBV_MTU_1024)
    attr.ah_attr = AHAttr(is_global=1, gr=GlobalRoute(dgid=GID(gid), sgid_index=1), port_num=1)
    attr.dest_qp_num, attr.timeout, attr.retry_cnt, attr.rnr_retry = number, 8, 2, 7
    qp.to_rts(attr)
    piece = [SGE(mr.buf, 8, mr.lkey)]
    qp.post_recv(RecvWR(num_sge=1, sg=piece))
    exchange("ready", None)
    if me == 1:
        count = 0
        while context.query_rt_values_ex()[1] < 5 * 10**6:  # the other has ended by then
            cq.poll()
        qp.post_send(SendWR(num_sge=1, sg=piece))
        while not count:
            count, found = cq.poll()
        print("status", found[0].status)
"""


def test_a_program_that_has_ended_answers_nobody_though_its_pair_hung_in_a_circle(tmp_path, capsys):
    path = tmp_path / "ends.py"
    path.write_text(dedent(ENDS))
    ns.run_verbs(nodes={node: [str(path), str(node)] for node in range(2)})
    assert capsys.readouterr().out == f"status {e.IBV_WC_RETRY_EXC_ERR.value}\n"
