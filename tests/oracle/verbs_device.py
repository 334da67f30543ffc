"""A device of verbs, slow and obvious, written from the verbs' rules: every request is one step.

Nothing here contends: a request takes a microsecond, an answer none.  What it holds still is what
must not depend on that: bytes, statuses, which queue gets what, and what is refused.  It is given
the module of the tuples that it takes and hands out, which are data of both.
"""

import errno
from collections import deque

import msgspec

from .verbs_memory import ON_DEMAND, Memory, Mr, Place
from .verbs_requests import Requests

RESET, INIT, RTR, RTS, SQD, SQE, ERR = range(7)
RC, UC, UD, XRC_SEND, XRC_RECV = 2, 3, 4, 9, 10
OPCODES = frozenset({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 14, 15})
MS = 1_000_000
FLUSHED = 5
CQ_ERR, DRAINED, LAST_WQE, LIMIT = 0, 5, 16, 15


class Pair:
    def __init__(self, calls, number, pd, kind, queues, caps, sig_all, xrcd):
        self.calls = calls
        self.number, self.pd, self.kind, self.caps = number, pd, kind, caps
        self.send_cq, self.recv_cq, self.srq, self.xrcd = *queues, xrcd
        self.sig_all = sig_all
        self.restart()

    def restart(self):
        self.set = self.calls.QpState(RESET)
        self.sends, self.receives = deque(), deque()
        self.posted = self.freed = 0  # of the send queue
        self.ready, self.rnr_left, self.waiting = 0, None, None
        self.next_psn = self.expected_psn = None


class TwinDevice(Requests):
    def __init__(self, calls):
        self.calls = calls
        self.facts = calls.Facts(
            *(4096, 1 << 30, 16384, 16, 512, 1 << 20, 16384, 16, 1 << 18),
            frozenset({RC, UC, UD, XRC_SEND, XRC_RECV}),
            OPCODES,
            *(True, True, True, True, True),
        )
        self.now_ns = 0
        self.memory = Memory(calls.Refused)
        self.map, self.unmap, self.drop = self.memory.map, self.memory.unmap, self.memory.drop
        self.read, self.write, self.mapped = (
            self.memory.read,
            self.memory.write,
            self.memory.mapped,
        )
        self.last = 0
        self.pds, self.dms, self.mrs, self.mws, self.cqs = set(), {}, {}, {}, {}
        self.qps, self.srqs, self.xrcds = {}, {}, set()
        self.keys = {}  # key: handle of a region, or Place of a window
        self.cq_events, self.async_events = deque(), deque()
        self.seen = 0  # completions and events so far
        self.messages = 0

    def new(self):
        self.last += 1
        return self.last

    # Domains, regions, windows
    def open_pd(self):
        self.pds.add(self.new())
        return self.last

    def close_pd(self, pd):
        self.pds.discard(pd)

    def register(self, pd, address, length, iova, access, implicit=False, dm=0):
        if pd not in self.pds:
            raise self.calls.Refused(errno.EINVAL)
        region = Mr(self, pd, address, length, iova, access, implicit, dm)
        handle = self.new()
        self.mrs[handle] = region
        key = handle << 8 | 0x11
        self.keys[key] = handle
        return self.calls.Region(handle, key, key)

    def reregister(self, handle, pd=None, address=None, length=None, access=None):
        region = self.mrs[handle]
        if access is not None:
            region.access = access
        if pd is not None:
            region.pd = pd
        if address is not None:
            region.place(address, length, address)

    def deregister(self, handle):
        del self.mrs[handle]
        self.keys = {key: h for key, h in self.keys.items() if h != handle}

    def prefetch(self, pd, advice, _flush, pieces):
        for lkey, address, length in pieces:
            found = self.place(lkey)
            if found is None or found.pd != pd or found.window or not found.access & ON_DEMAND:
                raise self.calls.Refused(
                    errno.EPERM if found is None or found.pd != pd else errno.EINVAL
                )
            if advice == 1 and not found.access & 1:
                raise self.calls.Refused(errno.EPERM)
            if not within(found, address, length) or not self.mapped(address, length):
                raise self.calls.Refused(errno.EFAULT)

    def place(self, key):
        """What a key leads to: a region whole, or what a window is open on."""
        found = self.keys.get(key)
        if isinstance(found, int):
            region = self.mrs[found]
            return Place(region, region.iova, region.length, region.access, region.pd, False)
        return found

    def alloc_dm(self, length):
        self.dms[self.new()] = bytearray(length)
        return self.last

    def free_dm(self, handle):
        del self.dms[handle]

    def dm_read(self, handle, offset, length):
        return bytes(self.dms[handle][offset : offset + length])

    def dm_write(self, handle, offset, data):
        self.dms[handle][offset : offset + len(data)] = data

    def alloc_mw(self, pd, kind):
        handle = self.new()
        self.mws[handle] = [pd, kind, handle << 8, None]  # the last: the key that is open
        return self.calls.Window(handle, handle << 8)

    def free_mw(self, handle):
        self.keys.pop(self.mws.pop(handle)[3], None)

    # Completion queues
    def make_cq(self, entries, made=None):
        handle = self.new()
        self.cqs[handle] = {"room": entries, "found": deque(), "armed": None, "dead": False}
        self.cqs[handle]["made"] = made or self.calls.Completion
        return self.calls.Cq(handle, entries)

    def resize_cq(self, handle, entries):
        self.settle()
        if entries < len(self.cqs[handle]["found"]):
            raise self.calls.Refused(errno.EINVAL)
        self.cqs[handle]["room"] = entries
        return entries

    def free_cq(self, handle):
        del self.cqs[handle]

    def arm(self, handle, solicited_only):
        self.cqs[handle]["armed"] = "solicited" if solicited_only else "any"

    def poll(self, handle, most):
        queue, made = self.cqs[handle]["found"], self.cqs[handle]["made"]
        if not queue:
            self.go_on(MS)
        found = [queue.popleft() for _ in range(min(most, len(queue)))]
        for each, pair, upto in found:
            if upto is not None and pair.number == each.qp_num:
                pair.freed = max(pair.freed, upto)
        return [made(*msgspec.structs.astuple(each)) for each, _, _ in found]

    def complete(self, cq, done, pair=None, upto=None, solicited=False):
        queue = self.cqs.get(cq)
        if queue is None or queue["dead"]:
            return
        self.seen += 1
        if len(queue["found"]) >= queue["room"]:
            queue["dead"] = True
            self.async_events.append(self.calls.Event(CQ_ERR, cq))
            for each in self.qps.values():
                if cq in (each.send_cq, each.recv_cq):
                    self.fail(each)
            return
        done.time_ns = self.now_ns
        queue["found"].append((done, pair, upto))
        wanted = queue["armed"]
        if wanted == "any" or (wanted and (solicited or done.status)):
            queue["armed"] = None
            self.cq_events.append(cq)

    # Queue pairs
    def make_qp(self, pd, kind, send_cq, recv_cq, srq, caps, sig_all, xrcd=0):
        number = self.new()
        self.qps[number] = Pair(
            self.calls, number, pd, kind, (send_cq, recv_cq, srq), caps, sig_all, xrcd
        )
        return self.calls.Qp(number, self.calls.Caps(*caps))

    def qp_state(self, number):
        return self.qps[number].set.state

    def modify_qp(self, number, wanted):
        pair = self.qps[number]
        before = pair.set.state
        if wanted.state == RESET:
            for queue in self.cqs.values():
                mine = [each for each in queue["found"] if each[0].qp_num != number]
                queue["found"] = deque(mine)
            pair.restart()
            return
        if before == RTR and wanted.state == RTS:
            pair.next_psn = wanted.sq_psn
        if before == INIT and wanted.state == RTR:
            pair.expected_psn = wanted.rq_psn
        pair.set = wanted
        if wanted.state == SQD != before and wanted.tells_drained:
            self.async_events.append(self.calls.Event(DRAINED, number))  # a request is one step
        if wanted.state == ERR:
            self.fail(pair)

    def free_qp(self, number):
        del self.qps[number]

    def fail(self, pair):
        """Flush all that is posted, in order."""
        pair.set = pair.set._replace(state=ERR)
        self.flush_sends(pair)
        while pair.receives:
            wr = pair.receives.popleft()
            self.complete(
                pair.recv_cq, self.calls.Completion(wr.wr_id, FLUSHED, 128, qp_num=pair.number)
            )
        if pair.srq:
            self.async_events.append(self.calls.Event(LAST_WQE, pair.number))

    def flush_sends(self, pair):
        while pair.sends:
            at, wr = pair.sends.popleft()
            flushed = self.calls.Completion(wr.wr_id, FLUSHED, qp_num=pair.number)
            self.complete(pair.send_cq, flushed, pair, at)

    def post_send(self, number, wr):
        pair = self.qps[number]
        if pair.posted - pair.freed >= pair.caps.send_wr:
            raise self.calls.Refused(errno.ENOMEM)
        pair.posted += 1
        pair.sends.append((pair.posted, wr))
        if pair.set.state in (SQE, ERR):
            self.flush_sends(pair)

    def post_recv(self, number, wr):
        pair = self.qps[number]
        no_receives = pair.srq or pair.kind in (XRC_SEND, XRC_RECV)
        if pair.set.state == RESET or no_receives or len(wr.pieces) > pair.caps.recv_sge:
            raise self.calls.Refused(errno.EINVAL)
        if len(pair.receives) >= pair.caps.recv_wr:
            raise self.calls.Refused(errno.ENOMEM)
        pair.receives.append(wr)
        if pair.set.state == ERR:
            self.fail(pair)

    # Shared receive queues
    def make_srq(self, pd, wr, sge, xrcd=0, cq=0):
        handle = self.new()
        queue = {"pd": pd, "room": wr, "sge": sge, "posted": deque(), "limit": 0}
        queue |= {"xrcd": xrcd, "cq": cq}
        self.srqs[handle] = queue
        return self.calls.Srq(handle, handle, wr, sge)

    def srq_post(self, handle, wr):
        queue = self.srqs[handle]
        if len(wr.pieces) > queue["sge"]:
            raise self.calls.Refused(errno.EINVAL)
        if len(queue["posted"]) >= queue["room"]:
            raise self.calls.Refused(errno.ENOMEM)
        queue["posted"].append(wr)

    def srq_limit(self, handle, limit):
        self.srqs[handle]["limit"] = limit

    def srq_resize(self, handle, room):
        if room < len(self.srqs[handle]["posted"]):
            raise self.calls.Refused(errno.EINVAL)
        self.srqs[handle]["room"] = room

    def srq_read_limit(self, handle):
        return self.srqs[handle]["limit"]

    def free_srq(self, handle):
        del self.srqs[handle]

    def make_xrcd(self):
        self.xrcds.add(self.new())
        return self.last

    def free_xrcd(self, handle):
        self.xrcds.discard(handle)

    # Time
    def go_on(self, most_ns):
        """To the next thing that the program can see, but no further than ``most_ns``."""
        end, seen = self.now_ns + most_ns, self.seen
        while self.seen == seen:
            due = [
                (max(pair.ready, self.now_ns), pair.number)
                for pair in self.qps.values()
                if pair.sends and pair.set.state == RTS and pair.ready is not None
            ]
            if not due or min(due)[0] > end:
                self.now_ns = end
                return bool(due)
            self.now_ns, number = min(due)
            self.now_ns += 1000
            self.serve(self.qps[number])
        return True

    def settle(self):
        while self.go_on(MS) and any(pair.sends for pair in self.qps.values()):
            pass

    def next_cq_event(self, cqs):
        return self.first(self.cq_events, lambda each: each in cqs)

    def next_async_event(self, qps, cqs, srqs):
        mine = qps | cqs | srqs
        return self.first(self.async_events, lambda each: each.element in mine)

    def first(self, events, wanted):
        while True:
            for each in events:
                if wanted(each):
                    events.remove(each)
                    return each
            if not self.go_on(MS):
                return None

    def bill(self):
        return self.calls.Bill(self.messages, 0, self.now_ns, 0, 0, 0, 0)


def within(place, address, length):
    return place.start <= address and address + length <= place.start + place.length
