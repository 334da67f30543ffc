"""What programs begin with that connect a queue pair with one of another node."""

ENDS = """
    import sys

    import pyverbs.libibverbs_enums as e
    from nicscope.verbs import exchange
    from pyverbs.addr import GID, AH, AHAttr, GlobalRoute
    from pyverbs.cq import CQ
    from pyverbs.device import Context, get_device_list
    from pyverbs.mr import MR
    from pyverbs.pd import PD
    from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
    from pyverbs.wr import SGE, RecvWR, SendWR

    me, RIGHTS = int(sys.argv[1]), 7
    context = Context(name=get_device_list()[0].name.decode())
    gid = str(context.query_gid(1, 1))
    pd, cq = PD(context), CQ(context, 16)
    mr = MR(pd, 256, RIGHTS)

    def pair(kind=e.IBV_QPT_RC, attr=None):
        cap = QPCap(max_send_wr=4, max_recv_wr=4)
        return QP(pd, QPInitAttr(qp_type=kind, scq=cq, rcq=cq, cap=cap), attr)

    def route(gid):
        return AHAttr(is_global=1, gr=GlobalRoute(dgid=GID(gid), sgid_index=1), port_num=1)

    def connect(qp, number, gid):
        attr = QPAttr(port_num=1)
        attr.ah_attr, attr.dest_qp_num, attr.qp_access_flags = route(gid), number, RIGHTS
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 8, 7, 7
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        qp.to_rts(attr)

    def piece(length, offset=0):
        return [SGE(mr.buf + offset, length, mr.lkey)]

    def ended():
        count = 0
        while not count:
            count, found = cq.poll()
        return found[0]
"""
