"""Two queue pairs of one device, connected with each other, and memory for both."""

from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.calls import Caps, Piece, QpState, Receive, Send
from nicscope.interfaces.verbs_device.device import Device

PAGE = 4096
ROOM = 2 * PAGE
ALL = (
    calls.LOCAL_WRITE
    | calls.REMOTE_WRITE
    | calls.REMOTE_READ
    | calls.REMOTE_ATOMIC
    | calls.FLUSH_GLOBAL
    | calls.FLUSH_PERSISTENT
)
MODEST = {"timeout": 8, "retry": 2, "rnr_retry": 2, "min_rnr_timer": 1}
POLLS = 400
LITTLE = Caps(1, 1, 1, 1, 0)


class World:
    """A device, pairs ``one`` and ``other``, a completion queue and a region of each."""

    def __init__(self, design="vmmc-interrupt", *, kind=calls.RC, depth=8, access=ALL, **options):
        self.device = device = Device(design, **options)
        self.pd = device.open_pd()
        self.cqs = [device.make_cq(256).handle for _ in range(2)]
        caps = Caps(depth, depth, 4, 4, 64)
        self.pairs = [self.pair(i, caps, kind) for i in range(2)]
        self.at, self.regions = [], []
        for _ in range(2):
            address, region = self.memory(access)
            self.at.append(address)
            self.regions.append(region)

    def pair(self, i, caps=LITTLE, kind=calls.RC, signals=True):
        """A further pair, with the completion queue of pair ``i``."""
        cq = self.cqs[i]
        return self.device.make_qp(self.pd, kind, cq, cq, 0, caps, signals).number

    def memory(self, access=ALL, length=ROOM, pd=None):
        """Fresh registered memory."""
        address = self.device.map(length)
        made = self.device.register(pd or self.pd, address, length, address, access)
        return address, made

    def connect(self, access=ALL, psns=(100, 200), off=0, **changes):
        """Both pairs to RTS; each expects packets numbered ``off`` past the other's."""
        attributes = MODEST | changes
        for i, pair in enumerate(self.pairs):
            for state in (calls.INIT, calls.RTR, calls.RTS):
                asked = QpState(
                    state,
                    access,
                    dest_qpn=self.pairs[1 - i],
                    rq_psn=psns[1 - i] + off,
                    sq_psn=psns[i],
                    **attributes,
                )
                self.device.modify_qp(pair, asked)
        return self

    def piece(self, i, length, offset=0):
        """A stretch of the memory of pair ``i``."""
        return Piece(self.at[i] + offset, length, self.regions[i].lkey)

    def send(self, i, wr_id, length=16, opcode=calls.WR_SEND, offset=0, **more):
        """Post a request of the pair's own memory."""
        pieces = more.pop("pieces", (self.piece(i, length, offset),))
        flags = more.pop("flags", calls.SIGNALED)
        self.device.post_send(self.pairs[i], Send(wr_id, opcode, pieces, flags, **more))

    def to_other(self, wr_id, opcode, length=16, offset=0, **more):
        """Post a request of pair 0 that names memory of pair 1."""
        more.setdefault("remote_address", self.at[1] + offset)
        more.setdefault("rkey", self.regions[1].rkey)
        self.send(0, wr_id, length, opcode, **more)

    def receive(self, i, wr_id, length=64, offset=0, **more):
        """Post a receive into the pair's own memory."""
        pieces = more.pop("pieces", (self.piece(i, length, offset),))
        self.device.post_recv(self.pairs[i], Receive(wr_id, pieces))

    def ended(self, i, many=1):
        """So many completions of pair ``i``, or as many as come."""
        found = []
        for _ in range(POLLS):
            found += self.device.poll(self.cqs[i], 64)
            if len(found) >= many:
                break
        return found

    def statuses(self, i, many=1):
        """Number and status of each."""
        return [(each.wr_id, each.status) for each in self.ended(i, many)]

    def states(self):
        """Of both pairs."""
        return [self.device.qp_state(pair) for pair in self.pairs]

    def event(self):
        """What happened beside completions, if anything."""
        found = self.device.next_async_event(self.pairs, self.cqs, [])
        return found and tuple(found)
