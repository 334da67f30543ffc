"""The caches of schemes in which the kernel pins in an interrupt: UTLB's baseline, U-Net/MM."""

# ruff: noqa: ARG002  (every scheme takes the same arguments; few need all of them)
from collections import OrderedDict

from oracle.ports_kernel import Kernel
from oracle.ports_records import DONE, NO_RIGHTS, NO_ROOM, READS, WRITES, Ready
from oracle.ports_utlb import Entries


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

    def pins_to_write(self, path):
        return path == WRITES

    def is_fit(self, node, space, page, path):
        fit = path == READS or (node.number, space, page) in self.written
        return fit and super().is_fit(node, space, page, path)

    def unpin_entry(self, node, key):
        self.written.discard((node.number, *key))
        super().unpin_entry(node, key)

    # A buffer whose page is on the disk keeps its turn, and those behind it go on.

    def await_thread(self, node, event):
        if event.ahead:
            address = event.port.free.popleft()
            event.port.ready.append(Ready(address, event.what[1], there=False))
        else:
            super().await_thread(node, event)

    def thread_is_done_for(self, event):
        if not event.ahead:
            super().thread_is_done_for(event)

    def tell_buffer(self, node, port, status, space, page):
        for buffer in port.ready:
            if not buffer.there and self.pages_of(buffer.address, 1)[0] == page:
                if status == DONE:
                    buffer.there = True
                    self.hold_buffer(node, buffer, page)
                buffer.refused = status if status in (NO_RIGHTS, NO_ROOM) else None
                return

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
            gone.append(victim)
        return gone
