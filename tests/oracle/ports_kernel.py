"""Schemes in which the kernel pins in an interrupt: pages are pinned while they have entries."""

# ruff: noqa: ARG002  (every scheme takes the same arguments; few need all of them)
from collections import Counter

from oracle.delivery_records import Action, Posted
from oracle.ports_firmware import MISS
from oracle.ports_memory import ON_DISK, TO_ZERO
from oracle.ports_records import (
    AGAIN,
    DONE,
    NO_ENTRY,
    NO_RIGHTS,
    NO_ROOM,
    NO_TRANSLATION,
    READS,
    WRITES,
)
from oracle.ports_served import Served
from oracle.ports_thread import Event


class Kernel(Served):
    """The processor waits for the interrupt's handler, then for what it unpins."""

    needs_pinning = False

    def __init__(self, world, network):
        super().__init__(world, network)
        self.in_use = Counter()  # (node, space, page): transfers, and buffers that are ready
        self.alone = Counter()  # likewise: packets for which it is pinned without an entry
        self.valid = (
            set()
        )  # likewise: entries whose pages are pinned; the host had no frame for others

    # --- processes pin nothing -------------------------------------------------------------------

    def could_pin(self, node, port, pages):
        return True

    def have_pinned(self, node, space, pages):
        return 0, DONE

    def keep(self, node, space, pages):
        pass

    def leave(self, node, space, pages):
        pass

    # --- entries in use --------------------------------------------------------------------------

    def hold_page(self, node, space, page):
        """A transfer uses the page: its entry stays where it is."""
        self.in_use[node.number, space, page] += 1

    def let_go(self, node, space, page):
        """The transfer has ended; ports that waited for an entry ask again."""
        self.in_use[node.number, space, page] -= 1
        for port in node.ports:
            port.waiting.for_entry = port.ahead.for_entry = False

    def is_in_use(self, node, key):
        return self.in_use[node.number, *key] > 0

    def hold_packet(self, node, held):
        if held is not None and held.alone:
            self.alone[node.number, held.space, held.page] += 1
            self.pin_frame(node, held.space, held.page, write=False)
        else:
            super().hold_packet(node, held)

    def let_packet_go(self, node, held):
        if held is not None and held.alone:
            self.alone[node.number, held.space, held.page] -= 1
            self.unpin_frame(node, held.space, held.page)
        else:
            super().let_packet_go(node, held)

    def hold_buffer(self, node, buffer, page):
        buffer.holds = buffer.source, page
        self.hold_page(node, *buffer.holds)

    def pinned_at_last(self):
        return self.valid | {key for key, packets in self.alone.items() if packets}

    def unpin_last_used(self, node, port):
        for key in self.keys(node):
            if key[0] == port.space:
                self.drop(node, key)
                self.unpin_entry(node, key)
                self.counts[node.number]["unpins"] += 1

    def drop(self, node, key):
        """The entry leaves."""
        raise NotImplementedError

    def unpin_entry(self, node, key):
        """The page of an entry that has left is unpinned, if it could be had."""
        if (node.number, *key) in self.valid:
            self.valid.discard((node.number, *key))
            self.unpin_frame(node, *key)

    def pin_entry(self, node, key, path, to_fill):
        """The page of an entry is pinned, if the host has a frame."""
        if self.pin_frame(node, *key, write=self.pins_to_write(path), zeroed=to_fill):
            self.valid.add((node.number, *key))
            self.pin_to_write(node, *key, path)

    def pins_to_write(self, path):
        return True

    def is_fit(self, node, space, page, path):
        return (node.number, space, page) in self.valid

    # --- a miss ----------------------------------------------------------------------------------

    def is_served(self, node, space, page):
        return True

    def lookup_in_miss(self, node, half, path):
        """What of a miss the lookup was charged for already."""
        return 0

    def miss(self, node, space, page, half, then, path):
        self.counts[node.number]["interrupts"] += 1
        service, place = node.service, self.place_of(node, space, page, path)
        asks = service["handshake"] + service["interrupt"]
        if half is not None:
            node.rx = None  # the receive is posted when the page is known

        def ended(status):
            if half is not None:
                node.rx = Posted(half, self.now)
            then(status, space if status == DONE else None)

        to_fill = self.world.fresh and path == WRITES and half is None  # a buffer
        if place == ON_DISK and not to_fill:
            self.interrupt(node, service["interrupt"])
            spent = max(0, asks - self.lookup_in_miss(node, half, path))
            self.ask_thread(node, space, page, half, path, self.now + spent)
            deferred = NO_TRANSLATION if half is not None else AGAIN
            self.wait(node, half, spent, lambda: ended(deferred))
            return
        work = 0
        if place in (TO_ZERO, ON_DISK):
            work = service["zero"]
        elif place is not None:
            work = service["pin_send" if path == READS else "pin_receive"]
        self.interrupt(node, service["interrupt"] + work)

        def served():
            if place is None:
                ended(NO_RIGHTS)
                return
            if self.mend(node, (space, page), path, to_fill):
                ended(DONE)
                return
            gone = self.install(node, (space, page), half is not None, path, to_fill)
            if gone is None:
                ended(self.no_entry(node, (space, page), half, path))
                return
            found = DONE if self.is_fit(node, space, page, path) else NO_ROOM
            if gone and service["unpin"]:
                self.wait(node, half, len(gone) * service["unpin"], lambda: ended(found))
            else:
                ended(found)

        spent = max(0, asks + work - self.lookup_in_miss(node, half, path))
        self.wait(node, half, spent, served)

    def ask_thread(self, node, space, page, half, path, handled):
        """The handler hands the page to the thread, as it is on the disk."""
        what = ("page", space, page)
        if half is not None:
            packet = half.message
            event = Event(what, None, packet.by, packet.number, path)
        else:
            event = Event(what, node.asking, path=path, ahead=path == WRITES)
        self.raise_event(node, event, handled)

    def mend(self, node, key, path, to_fill=False):
        """Whether the page of an entry was not pinned, or only to be read, and is pinned now."""
        if not self.is_there(node, *key):
            return False
        if (node.number, *key) not in self.valid:
            self.pin_entry(node, key, path, to_fill)
        elif not self.is_fit(node, *key, path):
            self.pin_frame(node, *key, write=True)
            self.unpin_frame(node, *key)
            self.pin_to_write(node, *key, path)
        return self.is_fit(node, *key, path)

    def bring_page(self, node, event, space, page):
        if self.mend(node, (space, page), event.path):
            return DONE
        if self.install(node, (space, page), event.port is None, event.path) is None:
            return NO_ENTRY
        return DONE if self.is_fit(node, space, page, event.path) else NO_ROOM

    def make_way(self, node, space, page):
        return self.give_way(node, (space, page))

    def pin_to_write(self, node, space, page, path):
        """Pages are pinned to be written in any case."""

    def wait(self, node, half, duration, then):
        node.processor = Action(MISS, self.now, self.now + duration, half)
        node.processor.then = then

    def install(self, node, key, arrives, path, to_fill=False):
        """Pin the page and enter it: the pages that left for it, None if transfers use them all."""
        if self.is_there(node, *key):
            return []  # the host has no frame for it, as before
        if not self.has_room(node, key):
            in_way = arrives and self.world.reliable and self.release_idle_entries(node, key)
            if not in_way or not self.has_room(node, key):
                return None
        gone = self.enter(node, key)
        self.counts[node.number]["pins"] += 1
        self.counts[node.number]["unpins"] += len(gone)
        for other in gone:
            self.unpin_entry(node, other)
        self.pin_entry(node, key, path, to_fill)
        return gone

    def no_entry(self, node, key, half, path):
        """Buffers that nothing fills give way to what is to be used."""
        if half is not None:
            self.give_way(node, key)
            return NO_ENTRY
        if path == READS and self.give_way(node, key):
            return AGAIN
        return NO_ENTRY

    def give_way(self, node, key):
        """Whether a buffer that is ready was in the way; it comes back when its turn comes."""
        given = False
        for port in node.ports:
            for buffer in port.ready:
                if buffer.holds is not None and self.is_in_way(node, buffer.holds, key):
                    self.leave_buffer(node, buffer)
                    buffer.there, given = False, True
        return given

    def release_idle_entries(self, node, key):
        """Whether packets and ports that only wait were in the way of one that arrives."""
        given = False
        for _, stream in self.streams_of(node):
            for number in sorted(stream.holds):
                held = stream.holds[number]
                if not held.alone and self.share_set((held.space, held.page), key):
                    held.alone, given = True, True
                    self.hold_packet(node, held)
                    self.let_go(node, held.space, held.page)
        for port in node.ports:
            descriptor = port.current
            holds = None if descriptor is None else descriptor.holds
            if holds is not None and self.share_set(holds, key):
                self.leave_page(node, descriptor)
                given = True
        return given

    def is_in_way(self, node, other, key):
        return self.share_set(other, key)
