"""miNI: lines of translations, buffers and processes in caches that a kernel thread fills."""

# ruff: noqa: ARG002  (every scheme takes the same arguments; few need all of them)
from oracle.delivery_records import Action, Posted
from oracle.ports_firmware import MISS
from oracle.ports_memory import AT_HAND, TO_ZERO
from oracle.ports_records import (
    DONE,
    EXPORT,
    FETCH,
    IMPORT,
    NO_ENTRY,
    NO_ROOM,
    NO_TRANSLATION,
    PROCESS,
    REPLY,
    SEND,
    WRITE,
    Waiting,
)
from oracle.ports_surplus import Surplus
from oracle.ports_thread import Event
from oracle.replay import Cache

WAYS = 4  # of the caches of handles


class Held(Cache):
    """A cache of which a promise keeps entries."""

    def room(self, key, kept):
        entries = self.set_of(key)
        return key in entries or len(entries) < self.ways or any(one not in kept for one in entries)

    def fill(self, key, kept):
        entries = self.set_of(key)
        if key in entries:
            return
        if len(entries) == self.ways:
            del entries[next(one for one in entries if one not in kept)]
        entries[key] = True


class Handles(Surplus):
    """A miss is dropped, or waits in its queue, until the thread has filled a line or a record."""

    needs_pinning = False

    def __init__(self, world, network):
        super().__init__(world, network)
        settings, many = world.settings, len(self.nodes)
        self.line = settings["line"]
        sets = settings["entries"] // self.line // settings["ways"]
        self.lines = [Held(sets, settings["ways"]) for _ in range(many)]
        self.buffers = [Held(world.buffer_entries // WAYS, WAYS) for _ in range(many)]
        self.processes = [Held(world.process_entries // WAYS, WAYS) for _ in range(many)]
        self.brought = set()  # (node, space, page): of lines for which the host was interrupted
        self.valid = set()  # likewise: those among them that are there, and pinned

    # --- what processes do, which is nothing -----------------------------------------------------

    def could_pin(self, node, port, pages):
        return True

    def have_pinned(self, node, space, pages):
        return 0, DONE

    def let_go(self, node, space, page):
        super().let_go(node, space, page)
        self.wake(node)

    def unpin_last_used(self, node, port):
        pass  # lines stay until the high water asks for them

    def pinned_at_last(self):
        return list(self.valid)

    # --- lookups ---------------------------------------------------------------------------------

    def key_of(self, space, page):
        return space, page // self.line

    def further_ways(self, node, space, page):
        return self.lines[node.number].further_ways(self.key_of(space, page))

    def is_on_nic(self, node, space, page):
        key, lines = self.key_of(space, page), self.lines[node.number]
        if key in lines:
            lines.touch(key)
        return key in lines

    def is_there(self, node, space, page):
        return self.key_of(space, page) in self.lines[node.number]

    def is_fit(self, node, space, page, path):
        return (node.number, space, page) in self.valid

    def is_served(self, node, space, page):
        return True

    def look_up_handle(self, node, kind, number, repeated):
        """Whether the NIC has the record of a process or a buffer."""
        counts = self.counts[node.number]
        cache = (self.processes if kind == PROCESS else self.buffers)[node.number]
        found = (kind, number) in cache
        if found:
            cache.touch((kind, number))
        counts["repeated_handles" if repeated else "lookups_handles"] += 1
        counts["misses_handles"] += not found and not repeated
        return found

    def invalidate_handle(self, node, kind, number):
        cache = (self.processes if kind == PROCESS else self.buffers)[node.number]
        cache.drop((kind, number))
        promised = self.threads[node.number].promised
        if promised.get(kind) == (kind, number):
            del promised[kind]

    # --- a port misses ---------------------------------------------------------------------------

    def handles_cost(self, node, port, descriptor):
        if port.number == 0:
            return 0
        return node.service["lookup_handle"] * (1 if descriptor.operation == SEND else 2)

    def has_request_handles(self, node, port, descriptor):
        wanted = [(PROCESS, port.number)]
        if descriptor.operation != SEND:
            wanted.append((IMPORT, descriptor.name))
        for place, (kind, number) in enumerate(wanted, 1):
            again = port.looked_up >= place
            if not self.look_up_handle(node, kind, number, again):
                port.looked_up = max(port.looked_up, place)
                self.raise_event(node, Event((kind, number), port))
                return False
        port.looked_up = 0
        return True

    def miss(self, node, space, page, half, then, path):
        what = ("page", space, page)
        if half is not None:
            packet = half.message
            self.raise_event(node, Event(what, None, packet.by, packet.number, path))
            node.rx = None
        else:
            port = node.asking
            answer = None if port.number else self.put_aside(port, page)
            self.raise_event(node, Event(what, port, path=path, ahead=node.asks_ahead))
            if answer is not None and not port.waiting.for_queue:
                answer.awaits, port.waiting.for_thread = page, False

        def deferred():
            if half is not None:
                node.rx = Posted(half, self.now)
                self.note_drop_time(node, half.message)
                then(NO_TRANSLATION, None)

        node.processor = Action(MISS, self.now, self.now, half)
        node.processor.then = deferred

    def next_request(self, port):
        """IV.A: a miss blocks its request, and other connections go on."""
        if port.number:
            return super().next_request(port)
        stopped = set()
        for answer in port.requests:
            if answer.awaits is None and answer.peer not in stopped:
                return answer
            if answer.awaits is not None:
                stopped.add(answer.peer)
        return None

    def put_aside(self, port, page):
        """The answer under way waits in its queue for its page."""
        answer, port.current = port.current, None
        answer.missed = page
        port.requests.appendleft(answer)
        port.waiting = Waiting()
        return answer

    def tell_port(self, node, port, status, space, page):
        if port.number:
            super().tell_port(node, port, status, space, page)
            return
        answer = next(one for one in port.requests if (one.awaits, one.space) == (page, space))
        answer.awaits = None
        if status == DONE:
            self.counts[node.number]["repeated"] += 1
            answer.page, answer.source, answer.missed = page, space, None
            self.hold_for(node, answer, space, page)
        elif status != NO_ENTRY:
            answer.lost = status

    def seeks_destination(self, descriptor):
        """IV.B: it has been posted with the read."""
        return descriptor.operation == FETCH and descriptor.sought < descriptor.length

    # --- a packet misses -------------------------------------------------------------------------

    def comes_again(self, node, packet):
        """What an answer goes to was looked up before the read was asked for."""
        return super().comes_again(node, packet) or packet.operation == REPLY

    def arriving_handles_cost(self, node, packet):
        return node.service["lookup_handle"] * (2 if packet.operation == WRITE else 1)

    def knows_packet(self, node, packet):
        """Whether the NIC knows the buffer that the packet names, and whose that is."""
        if packet.operation == REPLY:
            return self.knows(node, packet, 2, PROCESS, packet.descriptor.name)
        if not self.knows(node, packet, 1, EXPORT, packet.name):
            return False
        export = node.exports.get(packet.name)
        return export is None or self.knows(node, packet, 2, PROCESS, export.port)

    def knows(self, node, packet, place, kind, number):
        """The ``place`` says which lookup of a packet it is: one that missed is repeated."""
        stream = self.stream(node, packet.by)
        before = 0
        if self.world.reliable and stream.handle_missed[0] == packet.number:
            before = stream.handle_missed[1]
        if self.world.reliable and stream.missed == packet.number:
            before = 2
        if self.look_up_handle(node, kind, number, before >= place):
            return True
        self.raise_event(node, Event((kind, number), None, packet.by, packet.number))
        stream.handle_missed = packet.number, max(before, place)
        self.note_drop_time(node, packet)
        return False

    # --- the thread is done ----------------------------------------------------------------------

    def is_access_denied(self, node, space, page):
        return not self.is_mapped(node, space, page)

    def serve_handle(self, node, event):
        kind, _ = event.what
        cache = (self.processes if kind == PROCESS else self.buffers)[node.number]
        cache.fill(event.what, self.threads[node.number].promised.values())
        if event.port is None:
            self.promise(node, event.peer, kind, event.what)

    def promise_page(self, node, peer, space, page):
        self.promise(node, peer, "page", self.key_of(space, page))

    def bring_page(self, node, event, space, page):
        """What is on the disk is read for itself alone, and what is not mapped has no page."""
        if not self.bring_line(node, space, page):
            return NO_ENTRY
        if not self.is_fit(node, space, page, event.path):
            self.mend(node, space, page)
        return DONE if self.is_fit(node, space, page, event.path) else NO_ROOM

    def bring_line(self, node, space, page):
        """Pin what is not pinned of the line; whether it has a place."""
        key, lines = self.key_of(space, page), self.lines[node.number]
        kept = self.threads[node.number].promised.values()
        if not lines.room(key, kept):
            return False
        if key not in lines:
            for one in self.pages_of_line(key):
                if (node.number, space, one) not in self.brought:
                    self.brought.add((node.number, space, one))
                    self.counts[node.number]["pins"] += 1
                    self.pin_what_is_there(node, space, one)
            lines.fill(key, kept)
            self.note_filled(node, key)
        return True

    def pinning_time(self, node, event):
        """By where each page is; one that is not there when its line is filled waits."""
        if event.what[0] != "page" or self.is_access_denied(node, *event.what[1:]):
            return 0
        _, space, page = event.what
        lacks = (node.number, space, page) in self.brought - self.valid
        takes = {AT_HAND: node.service["pin_send"], TO_ZERO: node.service["zero"]}
        return sum(
            takes.get(self.place_of(node, space, one, event.path), 0)
            for one in self.pages_of_line(self.key_of(space, page))
            if (node.number, space, one) not in self.valid
            and (lacks or (node.number, space, one) not in self.brought)
        )

    def pages_of_line(self, key):
        return range(key[1] * self.line, (key[1] + 1) * self.line)

    def pin_what_is_there(self, node, space, page):
        """What is on the disk stays there."""
        if not self.is_out(node, space, page) and self.pin_frame(node, space, page):
            self.valid.add((node.number, space, page))

    def mend(self, node, space, page):
        """The page was not there when its line was filled: all of it that is there by now is."""
        self.pin_what_is_there(node, space, page)
        if (node.number, space, page) in self.valid:
            for one in self.pages_of_line(self.key_of(space, page)):
                if (node.number, space, one) not in self.valid:
                    self.pin_what_is_there(node, space, one)
