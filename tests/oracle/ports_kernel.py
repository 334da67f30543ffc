"""Schemes in which the kernel pins in an interrupt: pages are pinned while they have entries."""

from __future__ import annotations

# ruff: noqa: ARG002  (every scheme takes the same arguments; few need all of them)
from collections import Counter, OrderedDict

from oracle.delivery import Action, Posted
from oracle.ports_firmware import MISS
from oracle.ports_records import AGAIN, DONE, NO_ENTRY, NO_RIGHTS, READS, WRITES
from oracle.ports_translation import Translating
from oracle.ports_utlb import Entries


class Kernel(Translating):
    """The processor waits for the interrupt's handler, then for what it unpins."""

    needs_pinning = False

    def __init__(self, world, network):
        super().__init__(world, network)
        self.in_use = Counter()  # (node, space, page): transfers, and buffers that are ready
        self.alone = Counter()  # likewise: packets for which it is pinned without an entry

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
        else:
            super().hold_packet(node, held)

    def let_packet_go(self, node, held):
        if held is not None and held.alone:
            self.alone[node.number, held.space, held.page] -= 1
        else:
            super().let_packet_go(node, held)

    def hold_buffer(self, node, buffer, page):
        buffer.holds = buffer.source, page
        self.hold_page(node, *buffer.holds)

    def pinned_at_last(self):
        there = {(node.number, *key) for node in self.nodes for key in self.keys(node)}
        return there | {key for key, packets in self.alone.items() if packets}

    def unpin_last_used(self, node, port):
        for key in self.keys(node):
            if key[0] == port.space:
                self.drop(node, key)
                self.counts[node.number]["unpins"] += 1

    def drop(self, node, key):
        """The entry leaves, and its page is unpinned."""
        raise NotImplementedError

    # --- a miss ----------------------------------------------------------------------------------

    def is_served(self, node, space, page):
        return True

    def lookup_in_miss(self, node, half, path):
        """What of a miss the lookup was charged for already."""
        return 0

    def miss(self, node, space, page, half, then, path):
        self.counts[node.number]["interrupts"] += 1
        service, mapped = node.service, self.is_mapped(node, space, page)
        work = 0
        if mapped:
            work = service["pin_send" if path == READS else "pin_receive"]
        self.interrupt(node, service["interrupt"] + work)
        asks = service["handshake"] + service["interrupt"] + work
        spent = max(0, asks - self.lookup_in_miss(node, half, path))
        if half is not None:
            node.rx = None  # the receive is posted when the page is known

        def ended(status):
            if half is not None:
                node.rx = Posted(half, self.now)
            then(status, space if status == DONE else None)

        def served():
            if not mapped:
                ended(NO_RIGHTS)
                return
            if self.is_there(node, space, page):  # pinned to be read, and to be written now
                self.pin_to_write(node, space, page, path)
                ended(DONE)
                return
            gone = self.install(node, (space, page), half)
            if gone is None:
                ended(self.no_entry(node, (space, page), half, path))
                return
            self.pin_to_write(node, space, page, path)
            if gone and service["unpin"]:
                self.wait(node, half, len(gone) * service["unpin"], lambda: ended(DONE))
            else:
                ended(DONE)

        self.wait(node, half, spent, served)

    def pin_to_write(self, node, space, page, path):
        """Pages are pinned to be written in any case."""

    def wait(self, node, half, duration, then):
        node.processor = Action(MISS, self.now, self.now + duration, half)
        node.processor.then = then

    def install(self, node, key, half):
        """Pin the page and enter it: the pages that left for it, None if transfers use them all."""
        if not self.has_room(node, key):
            in_way = half is not None and self.world.reliable and self.yield_entries(node, key)
            if not in_way or not self.has_room(node, key):
                return None
        gone = self.enter(node, key)
        self.counts[node.number]["pins"] += 1
        self.counts[node.number]["unpins"] += len(gone)
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

    def yield_entries(self, node, key):
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


class Interrupt(Kernel):
    """UTLB, 6.2: a cache in which each process may pin so many pages."""

    def __init__(self, world, network):
        super().__init__(world, network)
        self.caches = [Entries(world.settings) for _ in self.nodes]
        self.recent = {}  # (node, space): pinned pages, the least recently looked up first

    def keys(self, node):
        return [key for entries in self.caches[node.number].sets for key in entries]

    def drop(self, node, key):
        space, page = key
        self.caches[node.number].drop(key)
        del self.recent_of(node, space)[page]

    def recent_of(self, node, space):
        return self.recent.setdefault((node.number, space), OrderedDict())

    def further_ways(self, node, space, page):
        return self.caches[node.number].further_ways((space, page))

    def is_on_nic(self, node, space, page):
        found = self.caches[node.number].use((space, page))
        if found:
            self.recent_of(node, space).move_to_end(page)
        return found

    def is_there(self, node, space, page):
        return (space, page) in self.caches[node.number]

    def share_set(self, one, other):
        cache = self.caches[0]
        return cache.place_of(one) == cache.place_of(other)

    def is_in_way(self, node, other, key):
        """There, too, where the process may pin no more."""
        return self.share_set(other, key) or (self.limit is not None and other[0] == key[0])

    def may_go(self, node, space):
        pages = self.recent_of(node, space)
        return next((page for page in pages if not self.is_in_use(node, (space, page))), None)

    def has_room(self, node, key):
        cache, pages = self.caches[node.number], self.recent_of(node, key[0])
        entries = cache.set_of(key)
        used = [self.is_in_use(node, other) for other in entries]
        if len(entries) == cache.ways and all(used):
            return False
        fits = self.limit is None or len(pages) < self.limit
        return fits or self.may_go(node, key[0]) is not None

    def enter(self, node, key):
        space, page = key
        cache, pages, gone = self.caches[node.number], self.recent_of(node, space), []
        while self.limit is not None and len(pages) >= self.limit:
            victim = self.may_go(node, space)
            cache.drop((space, victim))
            del pages[victim]
            gone.append((space, victim))
        entries = cache.set_of(key)
        if len(entries) == cache.ways:
            victim = next(other for other in entries if not self.is_in_use(node, other))
            del entries[victim]
            del self.recent_of(node, victim[0])[victim[1]]
            gone.append(victim)
        entries[key] = True
        pages[page] = True
        return gone


class UnetMm(Kernel):
    """U-Net/MM, 4.2 and 5.1: a direct-mapped table and a list of victims, first in first out."""

    def __init__(self, world, network):
        super().__init__(world, network)
        self.primary = [{} for _ in self.nodes]  # slot: key
        self.victims = [[] for _ in self.nodes]
        self.written = set()  # (node, space, page): pinned to be written

    def pin_to_write(self, node, space, page, path):
        if path == WRITES:
            self.written.add((node.number, space, page))

    def is_fit(self, node, space, page, path):
        return path == READS or (node.number, space, page) in self.written

    def keys(self, node):
        return [*self.primary[node.number].values(), *self.victims[node.number]]

    def drop(self, node, key):
        primary, victims, slot = (
            self.primary[node.number],
            self.victims[node.number],
            self.slot_of(key),
        )
        if primary.get(slot) == key:
            del primary[slot]
        else:
            victims.remove(key)
        self.written.discard((node.number, *key))

    def lookup_in_miss(self, node, half, path):
        if half is not None:
            return node.service["lookup_receive"]
        return node.service["lookup_send" if path == READS else "lookup_free"]

    def slot_of(self, key):
        return key[1] % self.world.settings["entries"]

    def share_set(self, one, other):
        return self.slot_of(one) == self.slot_of(other)

    def is_there(self, node, space, page):
        return (space, page) in self.keys(node)

    def is_on_nic(self, node, space, page):
        """A victim that is found goes back to its place, unless a transfer uses what is there."""
        key, slot = (space, page), self.slot_of((space, page))
        primary, victims = self.primary[node.number], self.victims[node.number]
        if primary.get(slot) == key:
            return True
        if key not in victims:
            return False
        if slot not in primary or not self.is_in_use(node, primary[slot]):
            victims.remove(key)
            if slot in primary:
                victims.append(primary[slot])
            primary[slot] = key
        return True

    def has_room(self, node, key):
        primary, victims = self.primary[node.number], self.victims[node.number]
        there = primary.get(self.slot_of(key))
        if there is None or not self.is_in_use(node, there):
            return True
        if len(victims) < self.world.settings["victim_entries"]:
            return True
        return not all(self.is_in_use(node, other) for other in victims)

    def enter(self, node, key):
        primary, victims, gone = self.primary[node.number], self.victims[node.number], []
        slot = self.slot_of(key)
        if slot in primary:
            victims.append(primary[slot])
        primary[slot] = key
        while len(victims) > self.world.settings["victim_entries"]:
            victim = next(other for other in victims if not self.is_in_use(node, other))
            victims.remove(victim)
            self.written.discard((node.number, *victim))
            gone.append(victim)
        return gone
