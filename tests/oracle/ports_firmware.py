"""What the NIC of a node with ports does, task by task, and what SERVE makes of a descriptor."""

from oracle.delivery_records import (
    COMPLETE,
    FINISH,
    FIRMWARE,
    FROM_HOST,
    POST_PAYLOAD,
    TO_HOST,
    TO_NET,
    Action,
)
from oracle.ports_prices import Prices
from oracle.ports_receiving import WANTED
from oracle.ports_records import (
    AGAIN,
    BAD,
    CUT,
    DONE,
    FETCH,
    IMPORT,
    NO_BUFFER,
    NO_ENTRY,
    NO_ROOM,
    NO_TAG,
    OUT_OF_BOUNDS,
    PEER_DEAD,
    READS,
    REPLY,
    SEND,
    WRITES,
    Held,
    Packet,
    Ready,
    Waiting,
)
from oracle.ports_staging import waits_to_go_in, waits_to_leave

SERVE, MISS = 7, 8  # tasks
WAITS = {TO_NET: waits_to_leave, TO_HOST: waits_to_go_in}


class Firmware(Prices):
    """The eight tasks."""

    tasks = 8

    def __init__(self, world):
        super().__init__(world)
        self.numbered = {}  # (sender, its peer): packets so far
        self.other_ends = world.streams.other_ends()

    def run(self):
        self.concerned = set(range(len(self.nodes)))
        self.look()
        self.after_event()
        while (event := self.next_event()) is not None:
            self.now, number, kind = event
            self.events += 1
            self.concerned = {number}
            self.happen(self.nodes[number], kind)
            self.go_on()
            self.look()
            if (following := self.next_event()) is None or following[0] > self.now:
                self.after_event()
            if self.all_ended():
                break
        return self

    def ready(self, node, task):
        if task == SERVE:
            room = node.send_ring() < self.delivery.send_ring
            node.serving = self.choose(node) if room else None
            return node.serving is not None
        if self.delivery.by_message and task in WAITS and WAITS[task](self, node):
            return False
        return super().ready(node, task)

    def begin(self, node, task):
        if task == SERVE:
            cost = node.costs["firmware_start"] + self.serve_cost(node, *node.serving)
            node.processor = Action(task, self.now, self.now + cost)
            node.last_task = task
            return
        super().begin(node, task)
        half = node.processor.half
        if task == POST_PAYLOAD and half.verdict == WANTED:
            node.processor.ends += self.placing_cost(node, half)
        elif task == COMPLETE and half.verdict == WANTED and half.message.last:
            node.processor.ends += node.service["receive_message"]

    def action_ends(self, node):
        action = node.processor
        half, task = action.half, action.what
        if task == MISS:
            node.processor = None
            self.record(None, node, FIRMWARE, action.start, 0, task=task)
            action.then()
            return
        if task == SERVE:
            node.processor = None
            self.serve(node, *node.serving)
            self.record(None, node, FIRMWARE, action.start, 0, task=task)
            return
        super().action_ends(node)
        if task == FINISH:
            self.has_left(node, half.message)
        elif task == POST_PAYLOAD:
            self.place(node, half)
        elif task == COMPLETE:
            if not half.done:
                node.seen.remove(half.message)
                node.accepted -= 1
            self.complete(node, half)
        elif task == FROM_HOST and half.message.payload:
            packet = half.message
            packet.content = self.read(node, packet.space, packet.source, packet.payload)

    # --- serving --------------------------------------------------------------------------------

    def choose(self, node):
        """What SERVE is for, or None."""
        for tag, channel in sorted(node.channels.items()):
            there = self.may_send_to(node, channel.peer) or self.is_given_up(node, channel.peer)
            if channel.cut is not None and there:
                return "cut", tag
        count = len(node.ports)
        for step in range(1, count + 1):
            port = node.ports[(node.last_served + step) % count]
            waiting = port.waiting
            if not port.open:
                continue
            if waiting.for_entry or waiting.for_thread or waiting.for_queue:
                continue
            if port.free and self.may_translate_ahead(port):
                return "buffer", port
            if port.current is not None:
                peer = port.current.peer
                if self.may_send_to(node, peer) or self.is_given_up(node, peer):
                    return "next", port
                continue
            if self.next_request(port) is not None:
                return "new", port
        return None

    def next_request(self, port):
        """The descriptor that the port takes next, or None."""
        return port.requests[0] if port.requests else None

    def may_translate_ahead(self, port):
        """Whether a buffer is wanted, and there is a place for it among those ready and filling."""
        most = self.world.ready + self.world.ring
        room = len(port.ready) < self.world.ready and len(port.ready) + port.filling < most
        return room and not (port.ahead.for_reader or port.ahead.for_entry)

    def serve(self, node, what, port):
        if what == "cut":
            self.send_message_abort(node, port)
            return
        node.last_served = port.number
        if not port.open:
            return  # it has closed since this was begun
        if what == "buffer":
            self.serve_buffer(node, port)
            return
        if what == "new":
            descriptor = self.next_request(port)
            if port.number and not self.has_request_handles(node, port, descriptor):
                return
            port.requests.remove(descriptor)
            port.waiting.missed = descriptor.missed
            status = self.check(node, port, descriptor)
            if status != DONE:
                self.cannot_send(port, descriptor, status)
                return
            port.current = descriptor
        if self.is_given_up(node, port.current.peer):
            self.give_up_request(port, PEER_DEAD)
        elif self.may_send_to(node, port.current.peer):
            self.make_packet(node, port, port.current)

    def may_send_to(self, node, peer):
        """Whether the window is open."""
        raise NotImplementedError

    def is_given_up(self, node, peer):
        """Whether the peer was taken for dead."""
        raise NotImplementedError

    def serve_buffer(self, node, port):
        address = port.free[0]

        def then(status, space):
            if status == NO_ENTRY:
                port.ahead.for_entry = True
            elif status == AGAIN:
                pass
            elif status == DONE:
                port.ready.append(Ready(port.free.popleft(), space))
                self.hold_buffer(node, port.ready[-1], page)
            elif self.has_place(port):
                self.give_back(node, port, port.free.popleft(), status)
            else:
                port.ahead.for_reader = True

        page, node.asking, node.asks_ahead = address // self.world.page, port, True
        self.translate(node, port.space, page, WRITES, None, then)

    def await_entry(self, port):
        """Until a transfer lets go of an entry, and not for ever."""
        if port.waiting.until is None:
            port.waiting.until = self.now + self.longest_silence()
        if port.waiting.until <= self.now:
            self.give_up_request(port, NO_ROOM)
        else:
            port.waiting.for_entry = True

    def give_up_request(self, port, status):
        """The descriptor under way goes no further."""
        descriptor, port.current = port.current, None
        port.waiting = Waiting()
        node = self.nodes[port.node]
        self.leave_page(node, descriptor)
        if descriptor.operation == SEND and descriptor.made > 0 and status != PEER_DEAD:
            node.channels[descriptor.name].cut = descriptor
        self.cannot_send(port, descriptor, status)

    def timers(self, node):
        yield from super().timers(node)
        for port in node.ports:
            if port.waiting.for_entry:
                yield port.waiting.until

    def after_peers(self, node):
        super().after_peers(node)
        for port in node.ports:
            if port.waiting.for_entry and port.waiting.until == self.now:
                self.give_up_request(port, NO_ROOM)

    def check(self, node, port, descriptor):
        """Lengths and operation, then tag or import, then bounds and rights."""
        if descriptor.operation == REPLY:
            return descriptor.lost or DONE
        if descriptor.operation == SEND:
            channel = node.channels.get(descriptor.name)
            if channel is None or channel.port != port.number:
                return NO_TAG
            descriptor.peer = channel.peer
            return DONE if descriptor.length <= channel.most else OUT_OF_BOUNDS
        fetch = descriptor.operation == FETCH
        if fetch and (len(descriptor.segments) != 1 or not self.world.reliable):
            return BAD
        one = node.imports.get(descriptor.name)
        if one is None or one.port != port.number:
            return NO_BUFFER
        descriptor.peer = one.peer
        if not 0 <= descriptor.offset <= one.length - descriptor.length:
            return OUT_OF_BOUNDS
        return DONE

    def packet_to(self, node, peer, **what):
        """A packet of the stream that the node knows by ``peer``; the other end names it itself."""
        there, by = self.other_ends[node.number, peer]
        return Packet(node.number, 0, there, 0, self.now, to=peer, by=by, **what)

    def make_packet(self, node, port, descriptor):
        if self.seeks_destination(descriptor) and not self.finds_destination(
            node, port, descriptor
        ):
            return
        packet = self.packet_to(node, descriptor.peer)
        packet.operation, packet.descriptor = descriptor.operation, descriptor
        packet.port = port.number
        packet.whole, packet.begins = descriptor.length, descriptor.offset
        packet.notify, packet.at = descriptor.notify, descriptor.made
        there = self.name_place(node, packet, descriptor)
        if not self.has_pages(descriptor):
            packet.content = descriptor.content
            descriptor.made = descriptor.length
        else:
            address, left = descriptor.place()
            page, before = divmod(address, self.world.page)
            if descriptor.page != page:
                self.look_up_to_send(node, port, descriptor, page)
                return
            packet.payload = min(left, self.world.page - before, there)
            packet.source, packet.space = address, descriptor.source
            descriptor.made += packet.payload
            if descriptor.source is not None:
                packet.holds = Held(descriptor.source, page)
        packet.last = descriptor.made == descriptor.length
        self.number(node, packet)
        self.hand_over(node, packet)
        if packet.last:
            port.current = None
            self.leave_page(node, descriptor)

    def finds_destination(self, node, port, descriptor):
        """Whether each page that a read's answer goes to has been looked up; one in each turn."""
        address = descriptor.segments[0][0] + descriptor.sought
        page, before = divmod(address, self.world.page)
        if descriptor.page != page:
            self.look_up_to_send(node, port, descriptor, page, WRITES)
            return False
        left = descriptor.length - descriptor.sought
        descriptor.sought += min(left, self.world.page - before)
        return descriptor.sought == descriptor.length

    def hold_packet(self, node, held):
        """One more use of the page of a packet."""
        if held is not None:
            self.hold_page(node, held.space, held.page)

    def let_packet_go(self, node, held):
        if held is not None:
            self.let_go(node, held.space, held.page)

    def send_message_abort(self, node, tag):
        """Tell the receiver that the rest of a message will not come."""
        channel = node.channels[tag]
        if self.is_given_up(node, channel.peer):
            channel.cut = None
        if channel.cut is None or not self.may_send_to(node, channel.peer):
            return
        packet = self.packet_to(node, channel.peer, operation=CUT, last=False)
        packet.name, packet.sender_name = channel.peer_tag, tag
        packet.descriptor, channel.cut = channel.cut, None
        self.number(node, packet)
        self.hand_over(node, packet)

    def hand_over(self, node, packet):
        """Give the packet to the engines; its page is held until it has left."""
        self.hold_packet(node, packet.holds)
        packet.packet = node.next_packet
        node.next_packet += 1
        node.ring.append(packet)

    def name_place(self, node, packet, descriptor):
        """Say where the packet goes; how many bytes end a page, or a unit, there."""
        page = self.world.page
        if descriptor.operation == SEND:
            channel = node.channels[descriptor.name]
            packet.name, packet.sender_name = channel.peer_tag, descriptor.name
            return channel.unit - descriptor.made % channel.unit
        if descriptor.operation == REPLY:
            return page - (descriptor.fetch.segments[0][0] + descriptor.made) % page
        one = node.imports.get(descriptor.name) or node.gone[IMPORT, descriptor.name]
        packet.name = one.export
        packet.at += descriptor.offset
        return page - (one.start + packet.at) % page

    def number(self, node, packet):
        way = node.number, packet.to
        packet.number = self.numbered[way] = self.numbered.get(way, -1) + 1

    def look_up_to_send(self, node, port, descriptor, page, path=READS):
        def then(status, space):
            if status == NO_ENTRY:
                self.await_entry(port)
                return
            if status == DONE:
                port.waiting = Waiting()
                descriptor.page, descriptor.source = page, space
                self.hold_for(node, descriptor, space, page)
                if self.may_send_to(node, descriptor.peer):
                    self.make_packet(node, port, descriptor)
            elif status != AGAIN:
                self.give_up_request(port, status)

        self.leave_page(node, descriptor)  # or it might have the only entry that the next can have
        repeats = port.waiting.missed == page
        port.waiting.missed, node.asking, node.asks_ahead = page, port, False
        self.translate(node, descriptor.space, page, path, None, then, repeats)

    def hold_for(self, node, one, space, page):
        """``one`` uses a page, unless it is the garbage page."""
        if space is not None:
            one.holds = space, page
            self.hold_page(node, *one.holds)

    def leave_page(self, node, descriptor):
        """The port does not send from the page any more."""
        if descriptor.holds is not None:
            self.let_go(node, *descriptor.holds)
        descriptor.page = descriptor.holds = None

    def cannot_send(self, port, descriptor, status):
        self.end_descriptor(port, descriptor, status)

    def ends_with(self, node, packet):
        """Whether the descriptor ends when the packet has left."""
        raise NotImplementedError

    def has_left(self, node, packet):
        self.let_packet_go(node, packet.holds)
        if self.ends_with(node, packet):
            self.end_descriptor(node.ports[packet.port], packet.descriptor, DONE)
