"""Random programs of verbs see the same statuses, bytes and order on the device and on its twin.

What may differ is when something comes: both ends are asked until nothing more does.
"""

from hypothesis import given
from hypothesis import strategies as st
from verbs_ends import End
from verbs_worlds import begun, collected

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.base import PyverbsRDMAError
from nicscope.interfaces.verbs.mr import MR, PD
from nicscope.interfaces.verbs.qp import QPAttr
from suite import share

SIZE = 8192
QUIET = 25  # empty polls after which nothing more comes: patience of a pair is 13 ms
OPCODES = (
    e.IBV_WR_SEND,
    e.IBV_WR_SEND_WITH_IMM,
    e.IBV_WR_RDMA_WRITE,
    e.IBV_WR_RDMA_WRITE_WITH_IMM,
    e.IBV_WR_RDMA_READ,
)
lengths = st.sampled_from([0, 1, 64, 1023, 1024, 1025, 4000])
offsets = st.sampled_from([0, 1, 64, 4095, 4096, SIZE - 1])
keys = st.sampled_from(["own", "own", "own", "own", "stale", "foreign", "readable"])
steps = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 1), st.sampled_from(OPCODES), lengths, offsets, keys,
              offsets, keys),
    st.tuples(st.just("receive"), st.integers(0, 1), lengths, offsets, keys),
    st.tuples(st.just("fill"), st.integers(0, 1), st.integers(1, 255), offsets),
    st.tuples(st.just("wait")),
)  # fmt: skip


class Both:
    """Two connected ends, and what a program of steps has seen of them."""

    def __init__(self, world):
        self.ends = [End(world, size=SIZE), End(world, size=SIZE)]
        self.others = [MR(PD(end.context), SIZE, end.access) for end in self.ends]
        self.readable = [MR(end.pd, SIZE, e.IBV_ACCESS_REMOTE_READ) for end in self.ends]
        self.connect()
        self.seen = []

    def connect(self):
        left, right = self.ends
        for end in self.ends:
            end.qp.modify(QPAttr(e.IBV_QPS_RESET), e.IBV_QP_STATE)
        left.connect(right, timeout=10, rnr_retry=1)
        right.connect(left, timeout=10, rnr_retry=1)

    def region(self, who, key):
        """Address, local key and remote key."""
        end = self.ends[who]
        if key == "foreign":
            return self.others[who].buf, self.others[who].lkey, self.others[who].rkey
        if key == "readable":
            return self.readable[who].buf, self.readable[who].lkey, self.readable[who].rkey
        past = key == "stale"
        return end.mr.buf, end.mr.lkey + past, end.mr.rkey + past

    def take(self, step):
        try:
            getattr(self, step[0])(*step[1:])
        except PyverbsRDMAError as error:
            self.seen.append((step[0], error.error_code))

    def send(self, who, opcode, length, offset, key, there, remote):
        end = self.ends[who]
        address, lkey, _ = self.region(who, key)
        start, _, rkey = self.region(1 - who, remote)
        remote_place = (rkey, start + there) if opcode not in (2, 3) else None
        end.send(length, address - end.mr.buf + offset, opcode=opcode, remote=remote_place,
                 lkey=lkey, imm_data=offset, wr_id=len(self.seen))  # fmt: skip
        self.wait()  # what both ends do at once may come in either order

    def receive(self, who, length, offset, key):
        end = self.ends[who]
        address, lkey, _ = self.region(who, key)
        end.receive(length, address - end.mr.buf + offset, wr_id=1000 + len(self.seen), lkey=lkey)

    def fill(self, who, value, offset):
        data = bytes([value]) * (SIZE - offset)
        self.ends[who].mr.write(data, len(data), offset)

    def wait(self):
        quiet, found = 0, ([], [])
        while quiet < QUIET:
            count = 0
            for who, end in enumerate(self.ends):
                some, wcs = end.cq.poll(8)
                count += some
                found[who].extend(map(told, wcs))
            quiet = 0 if count else quiet + 1
        self.seen.append(found)
        states = [end.qp.qp_state for end in self.ends]
        if states != [e.IBV_QPS_RTS] * 2:
            self.connect()

    def bytes(self):
        regions = [end.mr for end in self.ends] + self.others + self.readable
        return [mr.read(SIZE, 0) for mr in regions]


def told(wc):
    """What a completion says that means something."""
    if wc.status:
        return wc.wr_id, wc.status
    received = wc.opcode in (e.IBV_WC_RECV, e.IBV_WC_RECV_RDMA_WITH_IMM)
    more = (wc.byte_len, wc.wc_flags, wc.imm_data) if received else ()
    return (wc.wr_id, wc.status, wc.opcode, *more)


def outcome(kind, program):
    with collected():
        both = Both(begun(kind))
        try:
            for step in program:
                both.take(step)
            both.wait()
            return both.seen, both.bytes()
        finally:
            for end in both.ends:
                end.context.close()
            del both


@share(0.2)
@given(st.lists(steps, min_size=1, max_size=8))
def test_a_random_program_sees_the_same_on_both(program):
    ours, theirs = outcome("device", program), outcome("twin", program)
    assert ours[0] == theirs[0]
    assert ours[1] == theirs[1]
