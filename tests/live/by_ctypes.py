"""A program that loads the live libraries itself, as plug-ins do; it prints what it has found."""

from __future__ import annotations

import _ctypes
import ctypes
import json
import socket
import struct
import sys

CM = "librdmacm.so.1"
TCP, UDP = 0x106, 0x111
REUSE, ONE_VERSION = 1, 2


def reloaded():
    """The nodes that a program is which unloads the library 12 times; of 8 that there are."""
    found = set()
    for _ in range(12):
        library = ctypes.CDLL(CM)
        library.rdma_create_event_channel.restype = ctypes.c_void_p
        channel = library.rdma_create_event_channel()
        end, address = ctypes.c_void_p(), ctypes.create_string_buffer(v4("10.0.0.1", 0))
        assert channel
        assert library.rdma_create_id(ctypes.c_void_p(channel), ctypes.byref(end), None, TCP) == 0
        assert library.rdma_bind_addr(end, address) == 0
        source = ctypes.string_at(end.value + 32, 8)  # route.addr.src_addr, as rdma_cma.h has it
        found.add(socket.inet_ntoa(source[4:]))
        library.rdma_destroy_id(end)
        library.rdma_destroy_event_channel(ctypes.c_void_p(channel))
        _ctypes.dlclose(library._handle)
    return sorted(found)


def v4(address, port):
    """A ``struct sockaddr_in``."""
    return struct.pack("=HH4s8x", socket.AF_INET, socket.htons(port), socket.inet_aton(address))


def v6(address, port):
    """A ``struct sockaddr_in6``."""
    packed = socket.inet_pton(socket.AF_INET6, address)
    return struct.pack("=HHI16sI", socket.AF_INET6, socket.htons(port), 0, packed, 0)


def ports():
    """The errno, or 0, of each of several ends that bind and listen at ports that others hold."""
    library = ctypes.CDLL(CM, use_errno=True)
    library.rdma_get_src_port.restype = ctypes.c_uint16
    library.rdma_create_event_channel.restype = ctypes.c_void_p
    channel = ctypes.c_void_p(library.rdma_create_event_channel())

    def bound(address, *options, space=TCP, listens=False):
        end = ctypes.c_void_p()
        assert library.rdma_create_id(channel, ctypes.byref(end), None, space) == 0
        for option in options:
            one = ctypes.c_int(1)
            assert library.rdma_set_option(end, 0, option, ctypes.byref(one), 4) == 0
        done = library.rdma_bind_addr(end, ctypes.create_string_buffer(address))
        if listens and not done:
            done = library.rdma_listen(end, 1)
        return ctypes.get_errno() if done else 0

    def beside(address):
        """As ``bound`` to the port of an end that has resolved an address, for version 6 alone."""
        end = ctypes.c_void_p()
        assert library.rdma_create_id(channel, ctypes.byref(end), None, TCP) == 0
        there = ctypes.create_string_buffer(address)
        assert library.rdma_resolve_addr(end, None, there, 1000) == 0
        return bound(v6("::", socket.ntohs(library.rdma_get_src_port(end))), ONE_VERSION)

    return {
        "beside who asks one of version 4": beside(v4("10.0.0.1", 7)),
        "beside who asks one of version 6": beside(v6("::1", 7)),
        "any address": bound(v4("0.0.0.0", 7001)),
        "again": bound(v4("0.0.0.0", 7001)),
        "one address after any": bound(v4("10.0.0.1", 7001)),
        "the other version too": bound(v6("::", 7001)),
        "the other version alone": bound(v6("::", 7001), ONE_VERSION),
        "the other space": bound(v4("0.0.0.0", 7001), space=UDP),
        "one address": bound(v4("10.0.0.1", 7002)),
        "the same address": bound(v4("10.0.0.1", 7002)),
        "reused": bound(v4("10.0.0.1", 7003), REUSE),
        "reused again": bound(v4("10.0.0.1", 7003), REUSE),
        "reused and listens": bound(v4("10.0.0.1", 7003), REUSE, listens=True),
        "alone and listens": bound(v4("10.0.0.1", 7004), REUSE, listens=True),
        "reused behind who listens": bound(v4("10.0.0.1", 7004), REUSE),
    }


def dropped():
    """What a channel tells of ends that are destroyed before anybody has read what became of them.

    An end that has resolved an address goes, then one that listens and is asked.
    """
    library = ctypes.CDLL(CM)
    library.rdma_create_event_channel.restype = ctypes.c_void_p
    channel = ctypes.c_void_p(library.rdma_create_event_channel())
    ends = [ctypes.c_void_p() for _ in range(3)]
    for end in ends:
        assert library.rdma_create_id(channel, ctypes.byref(end), None, TCP) == 0
    gone, asks, listens = ends
    there = ctypes.create_string_buffer(v4("10.0.0.1", 7001))

    def next_event():
        event = ctypes.POINTER(ctypes.c_void_p)()
        assert library.rdma_get_cm_event(channel, ctypes.byref(event)) == 0
        told = names[event[0]], ctypes.cast(event, ctypes.POINTER(ctypes.c_uint32))[4]
        library.rdma_ack_cm_event(event)
        return told

    names = {end.value: name for end, name in zip(ends, ("gone", "asks", "listens"), strict=True)}
    assert library.rdma_bind_addr(listens, there) == library.rdma_listen(listens, 1) == 0
    for end in (gone, asks):
        assert library.rdma_resolve_addr(end, None, there, 1000) == 0
    library.rdma_destroy_id(gone)
    found = [next_event()]
    assert library.rdma_connect(asks, None) == 0
    library.rdma_destroy_id(listens)
    return [*found, next_event()]


def files():
    """The calls of the C library that find a card's folder."""
    library, path = ctypes.CDLL(None), b"/sys/class/infiniband/nicscope0"
    room = ctypes.create_string_buffer(256)
    calls = [
        *[(name, path, room) for name in ("stat", "lstat")],
        *[(name, 1, path, room) for name in ("__xstat", "__lxstat")],
        ("__fxstatat", 1, -1, path, room, 0),
    ]
    each = [(name + size, *given) for name, *given in calls for size in ("", "64")]
    return [name for name, *given in each if library[name](*given) == 0]


if __name__ == "__main__":
    asked = {"reloaded": reloaded, "ports": ports, "dropped": dropped, "files": files}
    each = asked[sys.argv[1]]
    print(json.dumps(each()), file=sys.stderr)
