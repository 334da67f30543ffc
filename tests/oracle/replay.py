"""What a replay must count: the semantics once more, in dicts and lists, one class per scheme.

Comments that begin with "Reading:" mark places where the rules can be read in more than one way.
"""

from __future__ import annotations

# ruff: noqa: ARG002  (every scheme takes the same arguments; few need all of them)
from collections import OrderedDict

COUNTS = (
    "requests",
    "lookups",
    "ni_misses",
    "ni_misses_send",
    "ni_misses_receive",
    "ni_misses_compulsory",
    "ni_misses_noncompulsory",
    "ni_misses_invalidated",
    "ni_misses_capacity",
    "ni_misses_conflict",
    "check_misses",
    "pins",
    "unpins",
    "pin_calls",
    "unpin_calls",
    "interrupts",
    "entries_fetched",
    "victim_hits",
    "further_ways",
    "dropped",
    "rejected",
    "bytes_copied",
    "peak_pinned_pages",
)
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
    "index_offset": True,
    "prefetch": 1,
    "prepin": 1,
    "pin_limit": None,
    "replacement": "lru",
    "high_water": None,
    "page_size": 4096,
}
SECOND_LEVEL_ENTRIES = 1024


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
        for _, node, pid, op, address, length in rows:
            if node == number:
                scheme.take(pid, PATHS[op], address, length)
        nodes.append({"node": number, **scheme.counts})
    total = {name: sum(node[name] for node in nodes) for name in COUNTS}
    return {"total": total, "nodes": nodes}


def runs_of(pages):
    """The maximal runs of consecutive numbers in an ascending list."""
    runs = []
    for page in pages:
        if runs and runs[-1][-1] == page - 1:
            runs[-1].append(page)
        else:
            runs.append([page])
    return runs


class Cache:
    """Sets of keys (process, number), each an OrderedDict with the least recent key first."""

    def __init__(self, sets, ways, offset_of=lambda _: 0):
        self.sets = [OrderedDict() for _ in range(sets)]
        self.ways = ways
        self.offset_of = offset_of

    def set_of(self, key):
        pid, number = key
        return self.sets[(number + self.offset_of(pid)) % len(self.sets)]

    def __contains__(self, key):
        return key in self.set_of(key)

    def further_ways(self, key):
        """How many ways a search for ``key``, most recent first, checks after the first.

        Firmware searches what is there or not there; with an index (above 16 ways) it does not.
        """
        if self.ways > 16:
            return 0
        recent = list(reversed(self.set_of(key)))
        return recent.index(key) if key in recent else self.ways - 1

    def touch(self, key):
        self.set_of(key).move_to_end(key)

    def insert(self, key):
        """Put ``key`` in its set as the most recent; the key evicted by this, or None."""
        # Reading: a prefetched entry, too, enters as the most recent of its set.
        entries = self.set_of(key)
        if key in entries:
            return None
        evicted = entries.popitem(last=False)[0] if len(entries) == self.ways else None
        entries[key] = True
        return evicted

    def drop(self, key):
        """Remove ``key``; whether it was there."""
        return self.set_of(key).pop(key, False)


class Kinds:
    """Why a lookup missed, told from its past and from a fully associative shadow cache."""

    def __init__(self, counts, capacity):
        self.counts = counts
        self.seen = set()
        self.left_by_unpinning = {}  # key -> how it last left the NIC
        self.shadow = Cache(sets=1, ways=capacity)

    def lookup(self, key, path, hit):
        in_shadow = key in self.shadow
        if in_shadow:
            self.shadow.touch(key)
        else:
            self.shadow.insert(key)
        if not hit:
            kind = self.kind_of(key, in_shadow)
            self.counts["ni_misses"] += 1
            self.counts["ni_misses_" + path] += 1
            self.counts["ni_misses_" + kind] += 1
            if kind != "compulsory":
                self.counts["ni_misses_noncompulsory"] += 1
        self.seen.add(key)

    def kind_of(self, key, in_shadow):
        if key not in self.seen:
            return "compulsory"
        if self.left_by_unpinning[key]:
            return "invalidated"
        return "conflict" if in_shadow else "capacity"

    def evicted(self, key):
        self.left_by_unpinning[key] = False

    def invalidated(self, key):
        self.left_by_unpinning[key] = True


class Scheme:
    """One node's NIC and host: the counts, and the pages pinned at the moment."""

    def __init__(self, design, offset, choose):
        self.design = design
        self.offset = offset
        self.choose = choose
        self.counts = dict.fromkeys(COUNTS, 0)
        self.ordinals = {}  # pid -> order of first appearance on this node
        self.pinned_pages = 0
        self.last_page = (2**64 - 1) // design["page_size"]
        self.prepare(design)

    def take(self, pid, path, address, length):
        first = address // self.design["page_size"]
        last = (address + length - 1) // self.design["page_size"]
        pages = range(first, last + 1)
        self.ordinals.setdefault(pid, len(self.ordinals))
        # Reading: a request that is rejected is still a row, and its pages are still pages.
        # Below, the NIC never hears of them: they are not anybody's first lookup.
        self.counts["requests"] += 1
        self.counts["lookups"] += len(pages)
        self.request(pid, path, pages, length)

    def offset_of(self, pid):
        if not self.design["index_offset"]:
            return 0
        return self.offset(self.ordinals[pid], self.design["entries"] // self.design["ways"])

    def count_pin(self, pages=1):
        self.counts["pins"] += pages
        self.pinned_pages += pages
        peak = max(self.counts["peak_pinned_pages"], self.pinned_pages)
        self.counts["peak_pinned_pages"] = peak

    def count_unpin(self):
        self.counts["unpins"] += 1
        self.pinned_pages -= 1


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
        self.counts["interrupts"] += 1
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
            self.counts["interrupts"] += 1
        if slot in self.primary:
            self.victims.append(self.primary[slot])
        self.primary[slot] = key
        if len(self.victims) > self.design["victim_entries"]:
            self.kinds.evicted(self.victims.pop(0))
            self.count_unpin()
        if not in_victims:
            self.count_pin()


class Utlb(Scheme):
    """The user library pins before it asks; the NIC fetches translations by itself."""

    def prepare(self, design):
        self.pin_limit = design["pin_limit"]
        self.pinned = {}  # pid -> {page: requests that used it}, least recently used first
        self.prepare_nic(design)

    def prepare_nic(self, design):
        sets = design["entries"] // design["ways"]
        self.cache = Cache(sets, design["ways"], self.offset_of)
        self.kinds = Kinds(self.counts, design["entries"])

    def request(self, pid, path, pages, length):
        if self.pin_limit is not None and len(pages) > self.pin_limit:
            self.counts["rejected"] += 1
            return
        self.host_side(pid, pages)
        self.nic_side(pid, path, pages)

    # Host side, once per request.

    def host_side(self, pid, pages):
        pinned = self.pinned.setdefault(pid, OrderedDict())
        for page in pages:
            if page in pinned:
                pinned.move_to_end(page)
                pinned[page] += 1
        new = [page for page in pages if page not in pinned]
        self.counts["check_misses"] += len(new)
        self.make_room(pid, pages, len(new))
        self.pin(pid, new)

    def make_room(self, pid, pages, needed):
        pinned = self.pinned[pid]
        while self.pin_limit is not None and len(pinned) + needed > self.pin_limit:
            victim = self.victim_among({p: n for p, n in pinned.items() if p not in pages})
            self.counts["unpin_calls"] += 1
            self.count_unpin()
            del pinned[victim]
            self.page_unpinned(pid, victim)

    def victim_among(self, candidates):
        policy = self.design["replacement"]
        order = list(candidates)  # least recently used first; min and max take the first of equals
        if policy == "lru":
            return order[0]
        if policy == "mru":
            return order[-1]
        if policy == "lfu":
            return min(order, key=candidates.get)
        if policy == "mfu":
            return max(order, key=candidates.get)
        return self.choose(order)

    def pin(self, pid, new):
        pinned = self.pinned[pid]
        # Pages are pinned call by call: a run, then its extension, both ascending.  Until the
        # limit leaves no room, every pinned block is at least prepin pages long: an extension
        # meets neither the next run nor a gap, so what it would do there does not matter.
        # Reading: a page pinned only by an extension becomes most recent, but was not used.
        room = None if self.pin_limit is None else self.pin_limit - len(pinned) - len(new)
        for run in runs_of(new):
            self.counts["pin_calls"] += 1
            end = min(run[0] + self.design["prepin"] - 1, self.last_page)
            extension = [
                page
                for page in range(run[-1] + 1, end + 1)
                if page not in pinned and page not in new
            ]
            if room is not None:
                extension = extension[:room]
                room -= len(extension)
            for page in run + extension:
                pinned[page] = 1 if page in run else 0
                self.count_pin()
                self.page_pinned(pid, page)

    def page_pinned(self, pid, page):
        pass

    def page_unpinned(self, pid, page):
        if self.cache.drop((pid, page)):
            self.kinds.invalidated((pid, page))

    # NIC side, for each page.

    def nic_side(self, pid, path, pages):
        for page in pages:
            key = (pid, self.number_of(pid, page))
            hit = key in self.cache
            self.counts["further_ways"] += self.cache.further_ways(key)
            self.kinds.lookup(key, path, hit)
            if hit:
                self.cache.touch(key)
            else:
                self.fetch(pid, key[1])

    def number_of(self, pid, page):
        return page

    def is_valid(self, pid, number):
        return number in self.pinned[pid]

    def fetch(self, pid, number):
        table_end = (number // SECOND_LEVEL_ENTRIES + 1) * SECOND_LEVEL_ENTRIES
        fetched = range(number, min(number + self.design["prefetch"], table_end))
        # Reading: every entry that the DMA reads was brought to the NIC, of use there or not.
        self.counts["entries_fetched"] += len(fetched)
        for entry in fetched:
            if self.is_valid(pid, entry):
                evicted = self.cache.insert((pid, entry))
                if evicted is not None:
                    self.kinds.evicted(evicted)


class UtlbShared(Utlb):
    """As utlb, but a page's translation is named by its index in the process's table."""

    # Reading: the key of a lookup is (process, index) for the kinds of misses too, whichever
    # page holds the index; and tables of indices end every 1024 entries as those of pages do.

    def prepare_nic(self, design):
        super().prepare_nic(design)
        self.tables = {}  # pid -> {index: page}

    def page_pinned(self, pid, page):
        table = self.tables.setdefault(pid, {})
        index = 0
        while index in table:
            index += 1
        table[index] = page

    def page_unpinned(self, pid, page):
        index = self.number_of(pid, page)
        del self.tables[pid][index]
        if self.cache.drop((pid, index)):
            self.kinds.invalidated((pid, index))

    def number_of(self, pid, page):
        return next(index for index, held in self.tables[pid].items() if held == page)

    def is_valid(self, pid, number):
        return number in self.tables[pid]


class UtlbProcess(Utlb):
    """Each process has a NIC table of its own, which is what limits its pinned pages."""

    def prepare_nic(self, design):
        self.pin_limit = design["entries"]

    def page_unpinned(self, pid, page):
        pass

    def nic_side(self, pid, path, pages):
        pass


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
}
