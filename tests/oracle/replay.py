"""What a replay must count: the semantics once more, in dicts and lists, one class per scheme.

Comments that begin with "Reading:" mark places where the rules can be read in more than one way.
"""

# ruff: noqa: ARG002  (every scheme takes the same arguments; few need all of them)
from collections import OrderedDict

from oracle.replay_parts import COUNTS, Cache, Kinds, Scheme, runs_of
from oracle.replay_rnic import Rnic
from oracle.replay_utlb import Utlb, UtlbProcess, UtlbShared

PATHS = {
    "send": "send",
    "write": "send",
    "serve_read": "send",
    "recv": "receive",
    "read": "receive",
    "serve_write": "receive",
}
COLUMNS = ("time_ns", "node", "pid", "op", "address", "length")
DEFAULTS = {
    "ways": 1,
    "line": 1,
    "victim_entries": 16,
    "most_valid": None,
    "index_offset": True,
    "prefetch": 1,
    "prepin": 1,
    "pin_limit": None,
    "replacement": "lru",
    "high_water": None,
    "page_size": 4096,
    "served_by": "nic",
    "mpt_ways": 1,
    "l1_entries": None,
    "l1_ways": 1,
    "l1_shared": False,
    "mpt_l1_entries": None,
    "mpt_l1_ways": 1,
    "mtu": None,
    "indirect": None,
    "registered": None,
}


def one_set_apart(process_ordinal, sets):
    """An index offset for tests that do not care which: each process starts one set further."""
    return process_ordinal % sets


def least_recent(candidates):
    """A random choice that is not random: the first candidate."""
    return candidates[0]


def replay(rows, design, offset=one_set_apart, choose=least_recent):
    """Every count of ``design`` over ``rows``: ``{"total": {...}, "nodes": [{"node": n, ...}]}``.

    ``rows`` are dicts or tuples of ``COLUMNS`` in the order of issue, ``design`` is flat.
    ``offset(process_ordinal, sets)`` is the constant added to the numbers of one process, whose
    ordinal is its place, from 0, in the order in which its node's processes first appear.
    ``choose(candidates)`` is the random policy: it returns one of the pages that may be
    unpinned, which it gets as a list, least recently used first. One node is replayed whole
    before the next, in ascending order, so ``choose`` is called in that order too.
    """
    design = {**DEFAULTS, **design}
    rows = [tuple(row[c] for c in COLUMNS) if isinstance(row, dict) else tuple(row) for row in rows]
    nodes = []
    # Reading: a node is listed if it has a row.
    for number in sorted({node for _, node, *_ in rows}):
        scheme = SCHEMES[design["scheme"]](design, offset, choose)
        own = [row for row in rows if row[1] == number]
        scheme.foresee([(pid, address) for _, _, pid, _, address, _ in own])
        for _, _, pid, op, address, length in own:
            scheme.take(pid, PATHS[op], address, length)
        scheme.finish()
        nodes.append({"node": number, **scheme.counts})
    total = {name: sum(node[name] for node in nodes) for name in COUNTS}
    return {"total": total, "nodes": nodes}


class Pinned(Scheme):
    """One pinned buffer area per process; every byte is copied."""

    def prepare(self, design):
        self.area_bytes = design["area_bytes"]
        self.area_pages = -(-design["area_bytes"] // design["page_size"])
        self.areas = set()

    def request(self, pid, path, pages, length):
        # Reading: the area is memory that is pinned, by one call, when its process first appears.
        if pid not in self.areas:
            self.areas.add(pid)
            self.counts["pin_calls"] += 1
            self.count_pin(self.area_pages)
        # Reading: what is rejected is not copied.
        if length > self.area_bytes:
            self.counts["rejected"] += 1
        else:
            self.counts["bytes_copied"] += length


class Static(Scheme):
    """Every page is pinned and given a NIC entry at first use, for ever, while there is room."""

    def prepare(self, design):
        self.table = set()

    def request(self, pid, path, pages, length):
        # Reading: registration comes before the transfer, so no lookup misses. `rejected` counts
        # pages, each that finds the table full; those before it, which found room, keep it. One
        # system call registers a run of new pages.
        registered = []
        for page in pages:
            if (pid, page) in self.table:
                continue
            if len(self.table) == self.design["entries"]:
                self.counts["rejected"] += 1
            else:
                self.table.add((pid, page))
                self.count_pin()
                registered.append(page)
        self.counts["pin_calls"] += len(runs_of(registered))


class Interrupt(Scheme):
    """A page is pinned while its entry is on the NIC; every miss interrupts the host."""

    def prepare(self, design):
        sets = design["entries"] // design["ways"]
        self.cache = Cache(sets, design["ways"], self.offset_of)
        self.kinds = Kinds(self.counts, design["entries"])
        self.pinned = {}  # pid -> its pinned pages, least recently looked up first

    def request(self, pid, path, pages, length):
        for page in pages:
            self.look_up(pid, path, page)

    def look_up(self, pid, path, page):
        key = (pid, page)
        pinned = self.pinned.setdefault(pid, OrderedDict())
        hit = key in self.cache
        self.counts["further_ways"] += self.cache.further_ways(key)
        self.kinds.lookup(key, path, hit)
        if hit:
            self.cache.touch(key)
            pinned.move_to_end(page)
            return
        # Reading: the kernel pins and unpins inside the interrupt; these are no system calls.
        self.count_interrupt()
        limit = self.design["pin_limit"]
        while limit is not None and len(pinned) >= limit:
            victim = pinned.popitem(last=False)[0]
            self.count_unpin()
            self.cache.drop((pid, victim))
            self.kinds.invalidated((pid, victim))
        evicted = self.cache.insert(key)
        if evicted is not None:
            # Reading: it left for want of room; the unpinning is the effect, not the cause.
            self.kinds.evicted(evicted)
            del self.pinned[evicted[0]][evicted[1]]
            self.count_unpin()
        pinned[page] = True
        self.count_pin()


class UnetMm(Scheme):
    """A direct-mapped primary and a first-in first-out victim cache; pinned is what they hold."""

    def prepare(self, design):
        self.primary = {}  # slot -> key
        self.victims = []  # head first
        self.kinds = Kinds(self.counts, design["entries"] + design["victim_entries"])

    def request(self, pid, path, pages, length):
        for page in pages:
            self.look_up((pid, page), path, page % self.design["entries"])

    def look_up(self, key, path, slot):
        in_primary = self.primary.get(slot) == key
        in_victims = key in self.victims
        self.kinds.lookup(key, path, in_primary or in_victims)
        if in_primary:
            return
        if in_victims:
            self.counts["victim_hits"] += 1
            self.victims.remove(key)
        else:
            self.count_interrupt()
            if self.pinned_pages == self.design["most_valid"]:
                self.make_room(slot)
        if slot in self.primary:
            self.victims.append(self.primary[slot])
        self.primary[slot] = key
        if len(self.victims) > self.design["victim_entries"]:
            self.kinds.evicted(self.victims.pop(0))
            self.count_unpin()
        if not in_victims:
            self.count_pin()

    def make_room(self, slot):
        """The kernel lets no more entries be valid: the first victim goes, else a primary entry.

        Reading: U-Net/MM, 4.2 says that there may be a cap, not what leaves for it.
        """
        if self.victims:
            leaving = self.victims.pop(0)
        else:
            entries = self.design["entries"]
            behind = min(self.primary, key=lambda other: (other - slot - 1) % entries)
            leaving = self.primary.pop(behind)
        self.kinds.invalidated(leaving)
        self.count_unpin()


class Handle(Scheme):
    """Lines of translations, filled by the host on a miss; what is evicted stays pinned."""

    def prepare(self, design):
        lines = design["entries"] // design["line"]
        self.cache = Cache(lines // design["ways"], design["ways"])
        self.kinds = Kinds(self.counts, lines)
        self.pinned = set()  # (pid, page)
        self.filled = OrderedDict()  # (pid, line number), least recently filled first

    def request(self, pid, path, pages, length):
        for page in pages:
            key = (pid, page // self.design["line"])
            hit = key in self.cache
            self.counts["further_ways"] += self.cache.further_ways(key)
            self.kinds.lookup(key, path, hit)
            if hit:
                self.cache.touch(key)
            else:
                # Reading: every miss drops the request once; the retry goes on where it missed.
                self.counts["interrupts"] += 1
                self.counts["dropped"] += 1
                self.fill(key)

    def fill(self, key):
        pid, _ = key
        evicted = self.cache.insert(key)
        if evicted is not None:
            self.kinds.evicted(evicted)
        self.filled[key] = True
        self.filled.move_to_end(key)
        new = [page for page in self.pages_of(key) if (pid, page) not in self.pinned]
        self.counts["pin_calls"] += len(runs_of(new))
        for page in new:
            self.pinned.add((pid, page))
            self.count_pin()
        # Reading: the line has been filled, and another evicted, when the host compares.
        if self.design["high_water"] is not None:
            self.lower_to(self.design["high_water"])

    def lower_to(self, high_water):
        # Reading: single pages go, a line's in ascending order, one call each.
        for key in self.filled:
            if key in self.cache:
                continue
            for page in self.pages_of(key):
                if self.pinned_pages > high_water and (key[0], page) in self.pinned:
                    self.pinned.remove((key[0], page))
                    self.counts["unpin_calls"] += 1
                    self.count_unpin()

    def pages_of(self, key):
        first = key[1] * self.design["line"]
        return range(first, first + self.design["line"])


SCHEMES = {
    "pinned": Pinned,
    "static": Static,
    "interrupt": Interrupt,
    "unet-mm": UnetMm,
    "utlb": Utlb,
    "utlb-shared": UtlbShared,
    "utlb-process": UtlbProcess,
    "handle": Handle,
    "rnic": Rnic,
}
