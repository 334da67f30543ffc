"""What speaks to the machine as the C library does, and what a test needs installed."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import socket
import struct
import time

import numpy as np
import pytest

from nicscope.interfaces.verbs_device.fabric import addresses
from nicscope.live import layout

WORDS = layout.CONSTANTS["WORDS"]
MESSAGE = struct.Struct(f"{WORDS}Q")


class Client:
    """What speaks to the machine as the C library does, or as it never would."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(str(path))
        self.socket.settimeout(60)
        self.segment = None

    def ask(self, name, *words, descriptors=()):
        """The words of the answer, the first of which is an errno."""
        number = layout.OPERATIONS.index(name) if isinstance(name, str) else name
        asked = [number, *(word & (2**64 - 1) for word in words)]
        packed = MESSAGE.pack(*asked, *[0] * (WORDS - len(asked)))
        socket.send_fds(self.socket, [packed], list(descriptors))
        answer, self.given, _, _ = socket.recv_fds(self.socket, MESSAGE.size, 4)
        return list(MESSAGE.unpack(answer))

    def hello(self):
        """Attach; the facts."""
        error, *facts = self.ask("HELLO", layout.FINGERPRINT, os.getpid())
        assert error == 0
        memory, self.bell = self.given
        self.segment = mmap.mmap(memory, layout.CONSTANTS["SEGMENT_BYTES"])
        os.close(memory)
        self.header = np.frombuffer(self.segment, layout.DTYPES["header"], 1)
        return dict(zip(layout.FACTS, facts, strict=False))

    def ring(self):
        """Ring the bell, as after whatever has been written."""
        self.header["bell"] += 1
        os.eventfd_write(self.bell, 1)

    def close(self):
        self.socket.close()


def free_port():
    """A TCP port that nobody else's programs of this kind use."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def needs(program):
    """Skips a test where a program is not installed."""
    packages = {
        "ibv": "ibverbs-utils",
        "ib": "perftest",
        "qperf": "qperf",
        "ucx": "ucx-utils",
        "mpirun": "openmpi-bin",
        "mpicc.mpich": "libmpich-dev",
        "mpirun.mpich": "mpich",
        "fi": "libfabric-bin",
        "fio": "fio",
        "dtest": "dapl2-utils",
        "dapltest": "dapl2-utils",
        "tgtd": "tgt",
        "iscsi-perf": "libiscsi-bin",
        "qemu-system-x86": "qemu-system-x86",
    }
    package = packages.get(program.split("_")[0], "rdmacm-utils")
    return pytest.mark.skipif(
        shutil.which(program) is None, reason=f"needs a package: {package}, of {program}"
    )


RTS = 3
MASKS = (  # of the states before it, in order: bits of attributes (ibv_qp_attr_mask)
    (0, 3, 4, 5),
    (0, 7, 8, 12, 15, 17, 20),
    (0, 9, 10, 11, 13, 16),
)
DATAGRAM_MASKS = ((0, 4, 5, 6), (0,), (0, 16))


class Ring:
    """A client's end of a ring, as the machine has told where it is."""

    def __init__(self, client, number, at, stride, slots):
        self.client, self.number = client, number
        self.at, self.stride, self.slots = at, stride, slots
        self.next = 0
        base, size = layout.CONSTANTS["RINGS_AT"], layout.DTYPES["ring"].itemsize
        self.words = np.frombuffer(client.segment, layout.DTYPES["ring"], 1, base + number * size)

    def put(self, kind, pieces=(), inline=b"", **fields):
        """Write a request, without a bell."""
        record = np.zeros((), layout.DTYPES[kind])
        for name, value in {"pieces": len(pieces), **fields}.items():
            record[name] = value
        behind = np.array(list(pieces), layout.DTYPES["piece"]).tobytes() + inline
        at = self.at + self.next % self.slots * self.stride
        self.client.segment[at : at + record.nbytes + len(behind)] = record.tobytes() + behind
        self.next += 1
        self.words["tail"] = self.next

    def wait(self, patience_s=60):
        """The next completion."""
        until = time.monotonic() + patience_s
        while int(self.words["tail"][0]) == self.next:
            assert time.monotonic() < until, "no completion has come"
            time.sleep(0.001)
        at = self.at + self.next % self.slots * self.stride
        self.next += 1
        self.words["head"] = self.next
        return np.frombuffer(self.client.segment, layout.DTYPES["completion"], 1, at)[0].copy()


class Queues:
    """Two queue pairs of one client that are connected with each other, and what they use."""

    def __init__(self, client, kind=2, depth=64, inline=64):
        self.client = client
        self.node = client.hello()["node"]
        _, self.pd, *_ = client.ask("ALLOC_PD")
        _, cq, _, *ring = client.ask("CREATE_CQ", 2 * depth, 0, 1)
        self.cq = cq
        self.ended = Ring(client, *ring[:4])
        self.numbers, self.sends, self.receives = [], [], []
        for cookie in (1, 2):
            error, number, *told = client.ask(
                "CREATE_QP", self.pd, kind, cq, cq, 0, depth, depth, 2, 2, inline, 0, 0, cookie
            )
            assert error == 0
            self.numbers.append(number)
            self.sends.append(Ring(client, *told[5:9]))
            self.receives.append(Ring(client, *told[9:13]))
        for mine, other in (self.numbers, self.numbers[::-1]):
            self.connect(mine, other, kind)

    def gid(self, is_v4):
        """The words of the client's address."""
        whole = addresses(self.node)[is_v4]
        return tuple(int.from_bytes(part, "little") for part in (whole[:8], whole[8:]))

    def connect(self, mine, other, kind):
        high, low = self.gid(1)
        told = {
            "port_num": 1, "qp_access_flags": 15, "path_mtu": 5, "dest_qp_num": other,
            "min_rnr_timer": 1, "timeout": 18, "retry_cnt": 7, "rnr_retry": 7, "qkey": 0x11,
            "max_rd_atomic": 4, "max_dest_rd_atomic": 4, "dgid_high": high, "dgid_low": low,
            "sgid_index": 1, "is_global": 1,
        }  # fmt: skip
        masks = DATAGRAM_MASKS if kind == 4 else MASKS
        for state, bits in enumerate(masks, 1):
            words = [{**told, "qp_state": state}.get(name, 0) for name in layout.ATTRIBUTES]
            error, *_ = self.client.ask("MODIFY_QP", mine, sum(1 << bit for bit in bits), *words)
            assert error == 0, (state, error)

    def memory(self, size):
        """Zeroed memory of this process, page by page its own, and where it is."""
        memory = mmap.mmap(-1, size)
        return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))

    def register(self, size):
        """The same, and its keys."""
        memory, address = self.memory(size)
        error, _, lkey, rkey, *_ = self.client.ask("REG_MR", self.pd, address, size, address, 15)
        assert error == 0
        return memory, address, lkey, rkey
