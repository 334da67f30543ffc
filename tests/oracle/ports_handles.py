"""miNI: lines of translations, buffers and processes in caches that a kernel thread fills."""

from __future__ import annotations

# ruff: noqa: ARG002  (every scheme takes the same arguments; few need all of them)
from oracle.delivery import Action, Posted
from oracle.ports_firmware import MISS
from oracle.ports_records import (
    DONE,
    EXPORT,
    IMPORT,
    NO_ENTRY,
    NO_RIGHTS,
    NO_ROOM,
    NO_TRANSLATION,
    PROCESS,
    REPLY,
    SEND,
    WRITE,
    WRITES,
    Ready,
    Waiting,
)
from oracle.ports_thread import Event, Threads
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


class Handles(Threads):
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
        self.brought = set()  # (node, space, page): pinned

    # --- what processes do, which is nothing -----------------------------------------------------

    def could_pin(self, node, port, pages):
        return True

    def have_pinned(self, node, space, pages):
        return 0, DONE

    def keep(self, node, space, pages):
        pass

    def leave(self, node, space, pages):
        pass

    def let_go(self, node, space, page):
        self.wake(node)

    def unpin_last_used(self, node, port):
        pass  # lines stay until the high water asks for them

    def pinned_at_last(self):
        return [key for key in self.brought if self.is_mapped(self.nodes[key[0]], *key[1:])]

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
        return self.is_mapped(node, space, page)

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

    def forget_handle(self, node, kind, number):
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

    def knows_request(self, node, port, descriptor):
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
            self.raise_event(node, Event(what, port, path=path, ahead=path == WRITES))

        def deferred():
            if half is not None:
                node.rx = Posted(half, self.now)
                self.note_dropped(node, half.message)
                then(NO_TRANSLATION, None)

        node.processor = Action(MISS, self.now, self.now, half)
        node.processor.then = deferred

    # --- a packet misses -------------------------------------------------------------------------

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
        self.note_dropped(node, packet)
        return False

    def translate(self, node, space, page, path, half, then, repeated=False):
        """What the thread has found not to be there is not asked for again."""
        if half is not None and repeated and not self.is_there(node, space, page):
            stream = self.stream(node, half.message.by)
            hopeless = stream.hopeless == half.message.number
            if hopeless or not self.is_mapped(node, space, page):
                self.counts[node.number]["repeated"] += 1
                stream.hopeless = None
                then(NO_ROOM if hopeless else NO_RIGHTS, None)
                return
        super().translate(node, space, page, path, half, then, repeated)

    # --- the thread is done ----------------------------------------------------------------------

    def serve_event(self, node, event):
        if event.port is None:
            self.make_turn(node, event.peer)
        else:
            event.port.waiting.for_thread = False
        if event.what[0] != "page":
            kind, _ = event.what
            cache = (self.processes if kind == PROCESS else self.buffers)[node.number]
            cache.fill(event.what, self.threads[node.number].promised.values())
            if event.port is None:
                self.promise(node, event.peer, kind, event.what)
            return
        _, space, page = event.what
        status = NO_RIGHTS
        if self.is_mapped(node, space, page):
            status = DONE if self.bring_line(node, space, page) else NO_ENTRY
        if event.port is None:
            self.tell_packet(node, event, status, self.key_of(space, page))
        elif event.ahead:
            self.tell_buffer(node, event.port, status, space, page)
        else:
            self.tell_port(node, event.port, status, space, page)

    def bring_line(self, node, space, page):
        """Pin what is not pinned of the line; whether it has a place."""
        key, lines = self.key_of(space, page), self.lines[node.number]
        kept = self.threads[node.number].promised.values()
        if not lines.room(key, kept):
            return False
        if key not in lines:
            first = key[1] * self.line
            pages = {(node.number, space, one) for one in range(first, first + self.line)}
            self.counts[node.number]["pins"] += len(pages - self.brought)
            self.brought |= pages
        lines.fill(key, kept)
        return True

    def tell_packet(self, node, event, status, key):
        stream = self.stream(node, event.peer)
        if status == DONE:
            self.promise(node, event.peer, "page", key)
            return
        others = self.threads[node.number].promised_to is not None
        if status == NO_ENTRY and not others and not self.may_come_again(stream, event):
            stream.hopeless = event.number

    def tell_buffer(self, node, port, status, space, page):
        if status == DONE:
            port.ready.append(Ready(port.free.popleft(), space))
        elif status == NO_ENTRY:
            port.ahead.for_entry = not self.withdraw(node)
        elif self.has_place(port):
            self.give_back(node, port, port.free.popleft(), status)
        else:
            port.ahead.for_reader = True

    def tell_port(self, node, port, status, space, page):
        """The descriptor finds what was brought, or asks again when a promise is out of its way."""
        descriptor = port.current
        if status == DONE:
            self.counts[node.number]["repeated"] += 1
            port.waiting = Waiting()
            descriptor.page, descriptor.source = page, space
            self.hold_for(node, descriptor, space, page)
        elif status == NO_RIGHTS:
            self.give_up_request(port, status)
        elif port.waiting.until is None or not self.withdraw(node):
            self.await_entry(port)
