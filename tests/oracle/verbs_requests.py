"""What a device of verbs does with one request, by the verbs' rules."""

from .verbs_memory import LOCAL_WRITE, REMOTE_ATOMIC, REMOTE_READ, REMOTE_WRITE, Place

RTR, RTS, SQE, ERR = 2, 3, 5, 6
RC, UC, UD, XRC_SEND, XRC_RECV = 2, 3, 4, 9, 10
WRITE, WRITE_IMM, SEND, SEND_IMM, READ, CAS, FAA, LOCAL_INV, BIND, SEND_INV = range(10)
FLUSH, ATOMIC_WRITE = 14, 15
CONSUMES = {WRITE_IMM, SEND, SEND_IMM, SEND_INV}
DONE = {0: 1, 1: 1, 2: 0, 3: 0, 4: 2, 5: 3, 6: 4, 7: 6, 8: 5, 9: 0, 14: 8, 15: 9}
LOC_LEN, LOC_PROT, BIND_ERR, REM_INV, REM_ACCESS, REM_OP, RETRY, RNR = 1, 4, 6, 9, 10, 11, 12, 13
QP_REQ_ERR, QP_ACCESS_ERR, LIMIT = 2, 3, 15
NEEDS = {
    WRITE: REMOTE_WRITE,
    WRITE_IMM: REMOTE_WRITE,
    READ: REMOTE_READ,
    CAS: REMOTE_ATOMIC,
    FAA: REMOTE_ATOMIC,
    ATOMIC_WRITE: REMOTE_WRITE,
}
FLUSH_NEEDS = {1: 256, 2: 512, 3: 768}
GRH = 40
RNR_MS = (
    *(655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64, 0.96),
    *(1.28, 1.92, 2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92),
    *(122.88, 163.84, 245.76, 327.68, 491.52),
)
PSNS = 1 << 24


class Requests:
    """What a pair's first request does; mixed into the device, whose tables it uses."""

    def serve(self, pair):
        at, wr = pair.sends[0]
        outcome = self.carry_out(pair, wr)
        if outcome is None:
            return  # it is tried again
        pair.sends.popleft()
        pair.rnr_left, pair.ready = None, 0
        self.messages += 1
        status, length = outcome
        if status or wr.flags & 2 or pair.sig_all:
            done = self.calls.Completion(wr.wr_id, status, DONE[wr.opcode], 0, length, pair.number)
            self.complete(pair.send_cq, done, pair, at)
        if status:
            if pair.kind in (UC, UD):
                pair.set = pair.set._replace(state=SQE)
                self.flush_sends(pair)
            else:
                self.fail(pair)

    def carry_out(self, pair, wr):
        """The status and the bytes of a request; None: not yet."""
        if wr.opcode == BIND:
            return self.bind(pair, wr), 0
        if wr.opcode == LOCAL_INV:
            return (0 if self.invalidate(wr.imm, pair.pd) else BIND_ERR), 0
        length = len(wr.inline) if wr.inline is not None else sum(p.length for p in wr.pieces)
        if (wr.opcode in (CAS, FAA) and length != 8) or length > self.facts.max_msg_bytes:
            return LOC_LEN, 0
        if pair.kind == UD and length > self.facts.mtu_bytes:
            return LOC_LEN, 0
        writes = LOCAL_WRITE if wr.opcode in (READ, CAS, FAA) else 0
        if wr.inline is None and not all(self.usable(p, pair.pd, writes) for p in wr.pieces):
            return LOC_PROT, 0
        if pair.kind == UD:
            return self.datagram(pair, wr), length
        peer = self.peer_of(pair)
        if peer is None:
            return (0, length) if pair.kind == UC else self.unanswered(pair)
        return self.at_peer(pair, peer, wr, length)

    def peer_of(self, pair):
        peer = self.qps.get(pair.set.dest_qpn)
        if peer is None or peer.set.state not in (RTR, RTS) or peer.set.dest_qpn != pair.number:
            return None
        kinds = {RC: RC, UC: UC, XRC_SEND: XRC_RECV}
        same = pair.next_psn == peer.expected_psn
        return peer if peer.kind == kinds.get(pair.kind) and same else None

    def unanswered(self, pair):
        if pair.waiting is None:
            if not pair.set.timeout:
                pair.ready = None  # for ever
                return None
            pair.waiting = 4096 * 2**pair.set.timeout * (pair.set.retry + 1)
            pair.ready = self.now_ns + pair.waiting
            return None
        pair.waiting = None
        return RETRY, 0

    def usable(self, piece, pd, access=0):
        if not piece.length:
            return True
        found = self.place(piece.lkey)
        if found is None or found.window or found.pd != pd or access & ~found.access:
            return False
        inside = found.start <= piece.address
        inside = inside and piece.address + piece.length <= found.start + found.length
        return inside and self.there(found, piece.address, piece.length)

    def there(self, place, address, length):
        region = place.region
        if region.dm is not None or region.pins is not None:
            return True
        return self.mapped(address - region.iova + region.address, length)

    def gather(self, wr):
        if wr.inline is not None:
            return wr.inline
        places = [(self.place(p.lkey), p) for p in wr.pieces if p.length]
        return b"".join(place.region.read(p.address, p.length) for place, p in places)

    def scatter(self, pieces, data):
        for piece in pieces:
            some = min(piece.length, len(data))
            if some:
                self.place(piece.lkey).region.write(piece.address, data[:some])
            data = data[some:]

    def at_peer(self, pair, peer, wr, length):
        wanted = NEEDS.get(wr.opcode, 0)
        if wr.opcode == FLUSH:
            wanted = FLUSH_NEEDS.get(wr.flush.type)
        if wanted and wanted & ~peer.set.access:
            return self.refuse(pair, peer, REM_INV, QP_REQ_ERR)
        if wr.opcode in (CAS, FAA) and wr.remote_address % 8:
            return self.refuse(pair, peer, REM_INV, QP_REQ_ERR)
        if wr.opcode in CONSUMES and not self.queue_of(peer, wr) and pair.kind != UC:
            return self.waited(pair, peer)  # before keys are looked at
        size = 8 if wr.opcode == ATOMIC_WRITE else length
        if wr.opcode == FLUSH:
            size = wr.flush.length if wr.flush.level == 0 else 0
        place = None
        if wanted and (size or wr.opcode == FLUSH):
            place = self.remote(peer, wr, wanted, size)
            if place is None:
                return self.refuse(pair, peer, REM_ACCESS, QP_ACCESS_ERR)
        if wr.opcode in CONSUMES:
            status = self.receive(pair, peer, wr, length, place)
            if status is None:
                return None
            if status:
                return status, 0
        elif wr.opcode != FLUSH and place is not None:
            self.one_sided(wr, place, size)
        for each, name in ((pair, "next_psn"), (peer, "expected_psn")):
            setattr(each, name, (getattr(each, name) + 1) % PSNS)
        return 0, length

    def queue_of(self, peer, wr):
        """Where what comes to a pair takes its receives."""
        shared = self.srqs.get(wr.srqn if peer.kind == XRC_RECV else peer.srq)
        return peer.receives if shared is None else shared["posted"]

    def waited(self, pair, peer):
        status = self.not_ready(pair, peer)
        return None if status is None else (status, 0)

    def refuse(self, pair, peer, status, event):
        if pair.kind == UC:
            return 0, 0
        self.async_events.append(self.calls.Event(event, peer.number))
        self.fail(peer)
        return status, 0

    def remote(self, peer, wr, wanted, size):
        found = self.place(wr.rkey)
        if found is None or wanted & ~found.access:
            return None
        if peer.kind != XRC_RECV and found.pd != peer.pd:
            return None
        if wr.opcode == FLUSH and wr.flush.level == 1:
            return found
        inside = found.start <= wr.remote_address
        inside = inside and wr.remote_address + size <= found.start + found.length
        if not inside or not self.there(found, wr.remote_address, size):
            return None
        return found

    def one_sided(self, wr, place, size):
        region, at = place.region, wr.remote_address
        if wr.opcode in (WRITE, ATOMIC_WRITE):
            region.write(at, self.gather(wr))
        elif wr.opcode == READ:
            self.scatter(wr.pieces, region.read(at, size))
        else:
            old = region.read(at, 8)
            value = int.from_bytes(old, "little")
            new = value + wr.compare_add if wr.opcode == FAA else value
            if wr.opcode == CAS and value == wr.compare_add:
                new = wr.swap
            region.write(at, (new % (1 << 64)).to_bytes(8, "little"))
            self.scatter(wr.pieces, old)

    def receive(self, pair, peer, wr, length, place):
        """What a request does that takes a receive: 0, a status, or None: not yet."""
        queue, cq, pd = peer.receives, peer.recv_cq, peer.pd
        shared = self.srqs.get(wr.srqn) if peer.kind == XRC_RECV else self.srqs.get(peer.srq)
        if shared is not None:
            queue, pd = shared["posted"], shared["pd"]
            cq = shared["cq"] or cq
        if not queue:
            return 0 if pair.kind == UC else self.not_ready(pair, peer)
        taken = queue.popleft()
        if shared is not None and len(queue) < shared["limit"]:
            shared["limit"] = 0
            self.seen += 1
            handle = next(h for h, each in self.srqs.items() if each is shared)
            self.async_events.append(self.calls.Event(LIMIT, handle))
        lands = 0 if wr.opcode == WRITE_IMM else length
        if lands > sum(piece.length for piece in taken.pieces):
            return self.bad_receive(pair, peer, cq, taken, LOC_LEN, REM_INV)
        if lands and not all(self.usable(piece, pd, LOCAL_WRITE) for piece in taken.pieces):
            return self.bad_receive(pair, peer, cq, taken, LOC_PROT, REM_OP)
        flags, imm = (2, wr.imm) if wr.opcode in (SEND_IMM, WRITE_IMM) else (0, 0)
        if wr.opcode == SEND_INV:
            if not self.invalidate(wr.imm, pd):
                return self.bad_receive(pair, peer, cq, taken, LOC_PROT, REM_OP)
            flags, imm = 8, wr.imm
        if wr.opcode != WRITE_IMM:
            self.scatter(taken.pieces, self.gather(wr))
        elif place is not None:
            place.region.write(wr.remote_address, self.gather(wr))
        opcode = 129 if wr.opcode == WRITE_IMM else 128
        done = self.calls.Completion(taken.wr_id, 0, opcode, 0, length, peer.number, 0, imm, flags)
        self.complete(cq, done, solicited=bool(wr.flags & 4))
        return 0

    def bad_receive(self, pair, peer, cq, taken, local, remote):
        self.complete(cq, self.calls.Completion(taken.wr_id, local, 128, qp_num=peer.number))
        self.fail(peer)
        return 0 if pair.kind == UC else remote

    def not_ready(self, pair, peer):
        if pair.rnr_left is None:
            pair.rnr_left = pair.set.rnr_retry
        if not pair.rnr_left:
            return RNR
        pair.rnr_left -= pair.set.rnr_retry != 7
        pair.ready = self.now_ns + int(RNR_MS[peer.set.min_rnr_timer] * 1e6)
        return None

    def datagram(self, pair, wr):
        peer = self.qps.get(wr.ud.qpn)
        qkey = pair.set.qkey if wr.ud.qkey >> 31 else wr.ud.qkey
        if peer is None or peer.kind != UD or peer.set.state not in (RTR, RTS):
            return 0
        shared = self.srqs.get(peer.srq)
        queue = peer.receives if shared is None else shared["posted"]
        if qkey != peer.set.qkey or not queue:
            return 0
        taken, data = queue.popleft(), self.gather(wr)
        head = bytes([0x60]) + bytes(7) + wr.ud.dgid + wr.ud.dgid
        if len(data) + GRH > sum(piece.length for piece in taken.pieces):
            status, done = LOC_LEN, 0
        elif not all(self.usable(piece, peer.pd, LOCAL_WRITE) for piece in taken.pieces):
            status, done = LOC_PROT, 0
        else:
            self.scatter(taken.pieces, head + data)
            status, done = 0, len(data) + GRH
        flags, imm = (3, wr.imm) if wr.opcode == SEND_IMM else (1, 0)
        found = self.calls.Completion(
            taken.wr_id, status, 128, 0, done, peer.number, pair.number, imm, flags
        )
        self.complete(peer.recv_cq, found, solicited=bool(wr.flags & 4))
        return 0

    def bind(self, pair, wr):
        want = wr.bind
        window, region = self.mws.get(want.window), self.mrs.get(want.mr)
        if window is None:
            return BIND_ERR
        pd, kind, key, opened = window
        if want.length or kind == 2:
            inside = region is not None and region.iova <= want.address
            inside = inside and want.address + want.length <= region.iova + region.length
            allowed = inside and region.access & 16 and region.pd == pd == pair.pd
            if allowed and want.access & (REMOTE_WRITE | REMOTE_ATOMIC):
                allowed = region.access & LOCAL_WRITE
            if not allowed or want.new_rkey >> 8 != key >> 8 or (kind == 2 and opened):
                return BIND_ERR
        self.keys.pop(opened, None)
        window[3] = None
        if want.length:
            window[3] = want.new_rkey
            place = Place(region, want.address, want.length, want.access, pd, True)
            self.keys[want.new_rkey] = place
        return 0

    def invalidate(self, key, pd):
        for window in self.mws.values():
            if window[3] == key and window[0] == pd and window[1] == 2:
                window[3] = None
                del self.keys[key]
                return True
        return False
