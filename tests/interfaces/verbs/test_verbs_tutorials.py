"""Programs as tutorials have them: on two nodes, by sockets, by events and by shared queues."""

import pytest

import nicscope as ns

PING_PONG = """
    import argparse
    import socket

    import pyverbs.enums as e
    from pyverbs.addr import GID, AHAttr, GlobalRoute
    from pyverbs.cq import CQ, CompChannel
    from pyverbs.device import Context, get_device_list
    from pyverbs.mr import MR
    from pyverbs.pd import PD
    from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
    from pyverbs.wr import SGE, RecvWR, SendWR

    parser = argparse.ArgumentParser()
    parser.add_argument("server", nargs="?")
    parser.add_argument("-n", type=int, default=5)
    parser.add_argument("-p", type=int, default=18515)
    args = parser.parse_args()
    SIZE, SENT, RECEIVED = 1024, 2, 1

    context = Context(name=get_device_list()[0].name.decode())
    pd, channel = PD(context), CompChannel(context)
    cq = CQ(context, 64, None, channel, 0)
    mr = MR(pd, SIZE, e.IBV_ACCESS_LOCAL_WRITE)
    cap = QPCap(max_send_wr=1, max_recv_wr=8)
    qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap))
    qp.to_init(QPAttr(port_num=1))
    piece = SGE(mr.buf, SIZE, mr.lkey)

    def receive():
        qp.post_recv(RecvWR(wr_id=RECEIVED, sg=[piece], num_sge=1))

    def send():
        flags = e.IBV_SEND_SIGNALED
        qp.post_send(SendWR(wr_id=SENT, num_sge=1, sg=[piece], send_flags=flags))

    receive()
    cq.req_notify()
    if args.server:
        link = socket.create_connection((args.server, args.p))
    else:
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("", args.p))
            listener.listen(1)
            link, (whence, _) = listener.accept()
        print("from", whence)
    link.sendall(f"{qp.qp_num} {context.query_gid(1, 1)}\\n".encode())
    number, gid = link.makefile().readline().split()
    attr = QPAttr(port_num=1)
    attr.ah_attr = AHAttr(is_global=1, port_num=1, gr=GlobalRoute(dgid=GID(gid), sgid_index=1))
    attr.dest_qp_num = int(number)
    attr.path_mtu, attr.max_rd_atomic, attr.max_dest_rd_atomic = e.IBV_MTU_1024, 1, 1
    attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
    qp.to_rtr(attr)
    qp.to_rts(attr)
    sent = received = 0
    if args.server:
        mr.write("from the client", 15)
        send()
    while sent < args.n or received < args.n:
        channel.get_cq_event(cq)
        cq.ack_events(1)
        cq.req_notify()
        count, found = cq.poll(num_entries=4)
        while count:
            for each in found:
                assert each.status == e.IBV_WC_SUCCESS, each
                sent += each.wr_id == SENT
                received += each.wr_id == RECEIVED
                if each.wr_id == RECEIVED and received < args.n:
                    receive()
                if each.wr_id == RECEIVED and sent < args.n:
                    send()
            count, found = cq.poll(num_entries=4)
    link.close()
    print(sent, received, mr.read(15, 0))
"""
BY_EVENTS = """
    import sys

    import pyverbs.cm_enums as cm
    import pyverbs.enums as e
    from pyverbs.cmid import CMID, AddrInfo, CMEvent, CMEventChannel, ConnParam
    from pyverbs.qp import QPCap, QPInitAttr

    channel = CMEventChannel()
    end = CMID(creator=channel, port_space=cm.RDMA_PS_TCP)
    names = []

    def pair(end):
        end.create_qp(QPInitAttr(qp_type=e.IBV_QPT_RC, cap=QPCap(max_recv_wr=4, max_send_wr=4)))
        return end.reg_msgs(256)

    def next_event():
        event = CMEvent(channel)
        names.append(event.event_str().removeprefix("RDMA_CM_EVENT_"))
        return event

    if len(sys.argv) > 1:
        end.resolve_addr(AddrInfo(dst=sys.argv[1], dst_service="7471"), timeout_ms=1000)
        next_event().ack_cm_event()
        end.resolve_route()
        next_event().ack_cm_event()
        answer, question = pair(end), end.reg_msgs(256)
        end.post_recv(answer)
        wanted = ConnParam(data_len=5)
        wanted.set_private_data(b"hello")
        end.connect(wanted)
        next_event().ack_cm_event()
        question.write(b"question", 8)
        end.post_send(question, e.IBV_SEND_SIGNALED, 8)
        assert end.get_send_comp().status == e.IBV_WC_SUCCESS
        print(answer.read(end.get_recv_comp().byte_len, 0))
        end.disconnect()
        next_event().ack_cm_event()
    else:
        end.bind_addr(AddrInfo(src="0.0.0.0", src_service="7471", flags=cm.RAI_PASSIVE))
        end.listen(backlog=10)
        while "DISCONNECTED" not in names:
            event = next_event()
            if event.event_type == cm.RDMA_CM_EVENT_CONNECT_REQUEST:
                child = CMID(creator=event, listen_id=end)
                print(event.private_data)
                mr = pair(child)
                child.post_recv(mr)
                child.accept(ConnParam(resources=1, depth=1))
            elif event.event_type == cm.RDMA_CM_EVENT_ESTABLISHED:
                print(mr.read(child.get_recv_comp().byte_len, 0))
                mr.write(b"answer", 6)
                child.post_send(mr, length=6)
                child.get_send_comp()
            event.ack_cm_event()
        child.close()
    print(*names)
"""
SHARED = """
    import os
    import sys

    import pyverbs.enums as e
    from nicscope.verbs import exchange
    from pyverbs.addr import GID, AHAttr, GlobalRoute
    from pyverbs.cq import CQ
    from pyverbs.device import Context, get_device_list
    from pyverbs.mr import MR
    from pyverbs.pd import PD
    from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttrEx
    from pyverbs.srq import SRQ, SrqInitAttrEx
    from pyverbs.wr import SGE, RecvWR, SendWR
    from pyverbs.xrcd import XRCD, XRCDInitAttr

    me = int(sys.argv[1])
    context = Context(name=get_device_list()[0].name.decode())
    pd, cq = PD(context), CQ(context, 16)
    file = os.open(sys.argv[2], os.O_RDONLY | os.O_CREAT)
    masks = e.IBV_XRCD_INIT_ATTR_FD | e.IBV_XRCD_INIT_ATTR_OFLAGS
    xrcd = XRCD(context, XRCDInitAttr(masks, os.O_CREAT, file))
    wanted = SrqInitAttrEx(max_wr=10)
    wanted.srq_type, wanted.pd, wanted.xrcd, wanted.cq = e.IBV_SRQT_XRC, pd, xrcd, cq
    wanted.comp_mask = e.IBV_SRQ_INIT_ATTR_TYPE | e.IBV_SRQ_INIT_ATTR_PD
    wanted.comp_mask |= e.IBV_SRQ_INIT_ATTR_CQ | e.IBV_SRQ_INIT_ATTR_XRCD
    srq = SRQ(context, wanted)
    init = QPInitAttrEx(
        qp_type=e.IBV_QPT_XRC_RECV, comp_mask=e.IBV_QP_INIT_ATTR_XRCD, xrcd=xrcd
    )
    RIGHTS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_ATOMIC
    attr = QPAttr(port_num=1)
    attr.qp_access_flags = RIGHTS
    receives = QP(context, init, attr)
    cap = QPCap(max_send_wr=4, max_recv_wr=0, max_recv_sge=0)
    init = QPInitAttrEx(
        qp_type=e.IBV_QPT_XRC_SEND, sq_sig_all=1, comp_mask=e.IBV_QP_INIT_ATTR_PD, pd=pd,
        scq=cq, cap=cap,
    )
    sends = QP(context, init, QPAttr(port_num=1))
    mr = MR(pd, 256, RIGHTS)
    srq.post_recv(RecvWR(wr_id=7, num_sge=1, sg=[SGE(mr.buf, 64, mr.lkey)]))
    own = (receives.qp_num, sends.qp_num, srq.get_srq_num(), str(context.query_gid(1, 1)))
    counter = (mr.rkey, mr.buf + 192)
    (to, whence, queue, gid), theirs = exchange("ends", (own, counter))[1 - me]
    for qp, number in ((receives, whence), (sends, to)):
        attr = QPAttr(port_num=1)
        attr.path_mtu, attr.max_rd_atomic, attr.max_dest_rd_atomic = e.IBV_MTU_1024, 1, 1
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
        attr.ah_attr = AHAttr(is_global=1, port_num=1, gr=GlobalRoute(GID(gid), sgid_index=1))
        attr.dest_qp_num = number
        qp.to_rts(attr)
    exchange("ready", None)
    mr.write(b"of node %d" % me, 9, 128)
    wr = SendWR(num_sge=1, sg=[SGE(mr.buf + 128, 9, mr.lkey)])
    wr.set_qp_type_xrc(queue)
    sends.post_send(wr)
    ended = []
    while len(ended) < 2:
        count, found = cq.poll(2)
        ended += [(each.wr_id, each.status, each.qp_num == receives.qp_num) for each in found]
    print(me, sorted(ended), mr.read(9, 0))
    for _ in range(8):
        wr = SendWR(opcode=e.IBV_WR_ATOMIC_FETCH_AND_ADD, num_sge=1, sg=[SGE(mr.buf, 8, mr.lkey)])
        wr.set_wr_atomic(*theirs, 1, 0)
        wr.set_qp_type_xrc(queue)
        sends.post_send(wr)
        count = 0
        while not count:
            count, found = cq.poll()
        assert found[0].status == e.IBV_WC_SUCCESS, found[0]
    exchange("done", None)
    print("counter", int.from_bytes(mr.read(8, 192), sys.byteorder))
"""


def test_a_ping_pong_of_two_nodes_by_sockets_and_events(program, capsys):
    path = program("pingpong", PING_PONG)
    runs = ns.run_verbs(nodes={0: [path], 1: [path, "10.0.0.1", "-n", "5"]}).found.runs
    told = sorted(capsys.readouterr().out.splitlines())
    assert told == ["5 5 b'from the client'"] * 2 + ["from 10.0.0.2"]
    assert [run.messages_out for run in runs] == [5, 5]


def test_a_server_and_a_client_by_events_of_connections(program, capsys):
    path = program("by_events", BY_EVENTS)
    runs = ns.run_verbs(nodes={0: [path], 1: [path, "10.0.0.1"]}).found.runs
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "ADDR_RESOLVED ROUTE_RESOLVED ESTABLISHED DISCONNECTED",
        "CONNECT_REQUEST ESTABLISHED DISCONNECTED",
        *("b'answer'", "b'hello'", "b'question'"),
    ]
    assert [run.messages_out for run in runs] == [1, 1]


@pytest.mark.parametrize("loss", [0, 0.2])
def test_queues_that_other_nodes_name_receive_for_all(program, capsys, tmp_path, loss):
    path = program("shared", SHARED)
    nodes = {me: [path, str(me), str(tmp_path / f"domain{me}")] for me in (0, 1)}
    ns.run_verbs(nodes=nodes, loss=loss)
    ended = [(0, 0, False), (7, 0, True)]
    told = [f"{me} {ended} {b'of node %d' % (1 - me)}" for me in (0, 1)]
    assert sorted(capsys.readouterr().out.splitlines()) == [*told, "counter 8", "counter 8"]
