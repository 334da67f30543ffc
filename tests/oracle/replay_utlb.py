"""What UTLB must count in its three forms: dicts and lists, for the oracle of a replay."""

from __future__ import annotations

# ruff: noqa: ARG002  (every scheme takes the same arguments; few need all of them)
from collections import OrderedDict

from oracle.replay_parts import SECOND_LEVEL_ENTRIES, Cache, Kinds, Scheme, runs_of


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
