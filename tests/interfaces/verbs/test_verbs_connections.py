"""Ends of connections find each other by name, and are told what becomes of them."""

import errno

import pytest
from verbs_ends import refused

from nicscope.interfaces.verbs import librdmacm_enums as cm
from nicscope.interfaces.verbs.addr import AH
from nicscope.interfaces.verbs.base import PyverbsRDMAError, PyverbsUserError
from nicscope.interfaces.verbs.cmid import (
    CMID,
    AddrInfo,
    CMEvent,
    CMEventChannel,
    ConnParam,
    UDParam,
)
from nicscope.interfaces.verbs.qp import QPCap, QPInitAttr


def listening(port="7471"):
    end = CMID(CMEventChannel())
    end.bind_addr(AddrInfo(src="10.0.0.1", src_service=port, flags=cm.RAI_PASSIVE))
    end.listen()
    return end


def asking(port="7471", pair=True):
    end = CMID(CMEventChannel())
    end.resolve_addr(AddrInfo(dst="10.0.0.1", dst_service=port))
    end.resolve_route()
    kinds = [CMEvent(end.event_channel).event_type for _ in range(2)]
    assert kinds == [cm.RDMA_CM_EVENT_ADDR_RESOLVED, cm.RDMA_CM_EVENT_ROUTE_RESOLVED]
    if pair:
        end.create_qp(room())
    return end


def room():
    return QPInitAttr(cap=QPCap(max_send_wr=4, max_recv_wr=4))


def test_two_ends_connect_talk_and_part(world):
    listener, client = listening(), asking()
    wanted = ConnParam()
    wanted.set_private_data(b"hello")
    client.connect(wanted)
    event = CMEvent(listener.event_channel)
    assert event.event_type == cm.RDMA_CM_EVENT_CONNECT_REQUEST
    assert event.private_data == b"hello"
    server = CMID(event, listen_id=listener)
    server.create_qp(room())
    server.accept()
    for end in (client, server):
        assert CMEvent(end.event_channel).event_type == cm.RDMA_CM_EVENT_ESTABLISHED
    text, buffer = client.reg_msgs(64), server.reg_msgs(64)
    text.write("by name", 7)
    server.post_recv(buffer)
    client.post_send(text)
    assert client.get_send_comp().status == server.get_recv_comp().status == 0
    assert buffer.read(7, 0) == b"by name"
    target = server.reg_write(64)
    client.post_write(text, 7, target.buf, target.rkey, 2)
    assert client.get_send_comp().status == 0
    assert target.read(7, 0) == b"by name"
    client.disconnect()
    for end in (client, server):
        assert CMEvent(end.event_channel).event_type == cm.RDMA_CM_EVENT_DISCONNECTED
        assert end.qp.qp_state == 6
    assert world.listeners
    listener.close()
    assert not world.listeners


def test_who_is_not_wanted_is_told(twin_world):
    listener, client = listening(), asking()
    client.connect()
    CMID(CMEvent(listener.event_channel), listen_id=listener).reject(b"no")
    event = CMEvent(client.event_channel)
    assert (event.event_type, event.private_data) == (cm.RDMA_CM_EVENT_REJECTED, b"no")
    nobody = asking("99")
    nobody.connect()
    assert CMEvent(nobody.event_channel).status == errno.ECONNREFUSED
    assert twin_world.listeners


def test_a_pair_of_the_programs_own_is_told_what_to_set(twin_world):
    listener, client = listening(), asking(pair=False)
    wanted = ConnParam(qp_num=77)
    client.connect(wanted)
    server = CMID(CMEvent(listener.event_channel), listen_id=listener)
    server.accept(ConnParam(qp_num=78))
    assert CMEvent(client.event_channel).event_type == cm.RDMA_CM_EVENT_CONNECT_RESPONSE
    theirs, _ = client.init_qp_attr(2)
    ours, _ = server.init_qp_attr(2)
    assert (theirs.dest_qp_num, ours.dest_qp_num) == (78, 77)
    assert theirs.rq_psn == server.init_qp_attr(3)[0].sq_psn
    client.establish()
    assert CMEvent(server.event_channel).event_type == cm.RDMA_CM_EVENT_ESTABLISHED
    assert len(twin_world.listeners) == 1


@pytest.mark.usefixtures("twin_world")
def test_what_cannot_come_is_not_waited_for():
    listener = listening()
    with pytest.raises(PyverbsRDMAError, match="none can come"):
        listener.get_request()
    with pytest.raises(PyverbsRDMAError, match="none can come"):
        CMEvent(listener.event_channel)
    alone = CMID(AddrInfo(dst="10.0.0.1", dst_service="7471"), room())
    with pytest.raises(PyverbsRDMAError, match="nobody can answer"):
        alone.connect()
    with refused("ENODEV"):
        AddrInfo(dst="192.0.2.1")
    with refused("EADDRINUSE"):
        listening()
    with refused("EOPNOTSUPP"):
        CMID(port_space=cm.RDMA_PS_IB)


@pytest.mark.usefixtures("twin_world")
def test_an_address_is_resolved_into_its_object_later_too():
    listening()
    info = AddrInfo()
    assert info.get_addrinfo(dst="10.0.0.1", dst_service="7471") is info
    with refused("ENODEV"):
        info.get_addrinfo(dst="192.0.2.1", dst_service="7")
    end = CMID(CMEventChannel())
    end.resolve_addr(info)
    assert CMEvent(end.event_channel).event_type == cm.RDMA_CM_EVENT_ADDR_RESOLVED
    assert info.dst == ("10.0.0.1", 7471)


def test_an_end_says_what_it_is_and_takes_its_option(device_world):
    listener, client = listening(), asking()
    assert client.qpn == client.qp.qp_num
    assert (listener.qpn, client.dev_name, client.port_num) == (None, device_world.name, 1)
    client.set_option(cm.RDMA_OPTION_ID, cm.RDMA_OPTION_ID_ACK_TIMEOUT, 21, 1)
    with refused("EINVAL"):
        client.set_option(cm.RDMA_OPTION_ID, cm.RDMA_OPTION_ID_ACK_TIMEOUT, 32, 1)
    with pytest.raises(PyverbsUserError):
        client.set_option(cm.RDMA_OPTION_ID, 99, 21, 1)
    wanted = ConnParam(data_len=2)
    wanted.set_private_data(b"hello")
    client.connect(wanted)
    event = CMEvent(listener.event_channel)
    assert (event.private_data, event.event_str()) == (b"he", "RDMA_CM_EVENT_CONNECT_REQUEST")
    server = CMID(event, listen_id=listener)
    server.create_qp(room())
    server.accept()
    assert (client.query_qp(0)[0].timeout, server.query_qp(0)[0].timeout) == (21, 14)
    server.disconnect()
    for end in (server, client):
        assert CMEvent(end.event_channel).private_data == b""
    client.disconnect()  # as well, though the other end has done so
    with refused("EINVAL"):
        server.disconnect()
    with refused("EINVAL"):
        UDParam(event)


@pytest.mark.usefixtures("device_world")
def test_an_end_of_datagrams_learns_where_to_send():
    space = cm.RDMA_PS_UDP
    listener = CMID(CMEventChannel(), port_space=space)
    client = CMID(CMEventChannel(), port_space=space)
    listener.bind_addr(AddrInfo(src="10.0.0.1", src_service="7", port_space=space))
    listener.listen()
    with refused("ECONNREFUSED"):
        CMID(AddrInfo(dst="10.0.0.1", dst_service="7"), room()).connect()  # of another space
    client.resolve_addr(AddrInfo(dst="10.0.0.1", dst_service="7", port_space=space))
    client.resolve_route()
    client.create_qp(room())
    client.connect()
    server = CMID(CMEvent(listener.event_channel), listen_id=listener)
    server.create_qp(room())
    buffer, text = server.reg_msgs(100), client.reg_msgs(100)
    server.post_recv(buffer)
    server.accept()
    told = UDParam([CMEvent(client.event_channel) for _ in range(3)][-1])
    assert (told.qp_num, told.qkey) == (server.qpn, 0x01234567)
    text.write(b"datagram", 8)
    client.post_ud_send(text, AH(client.pd, attr=told.ah_attr), told.qp_num, length=8)
    assert client.get_send_comp().status == 0
    assert buffer.read(server.get_recv_comp().byte_len - 40, 40) == b"datagram"
    for end in (client, server):
        assert not end.event_channel.waiting
