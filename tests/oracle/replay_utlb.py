"""What UTLB must count in its three forms: dicts and lists, for the oracle of a replay."""

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
        ends = {run[0]: self.last_of_call(pages, run) for run in runs_of(new)}
        # No page goes that a call of this request pins, or finds pinned where it pins ahead.
        spared = {page for begin, last in ends.items() for page in range(begin, last + 1)}
        spared.update(pages)
        self.make_room(pid, spared, len(new))
        for run in runs_of(new):
            self.pin_run(pid, new, spared, run, ends[run[0]])

    def last_of_call(self, pages, run):
        """The last page that the call for a run is to see pinned."""
        last = min(run[0] + self.design["prepin"] - 1, self.last_page)
        if self.pin_limit is not None:
            # Reading: the request's own pages are among the limit's, for none of them may go.
            last = min(last, pages[0] + self.pin_limit - 1)
        return last

    def make_room(self, pid, spared, needed):
        pinned = self.pinned[pid]
        while self.pin_limit is not None and len(pinned) + needed > self.pin_limit:
            victim = self.victim_among({p: n for p, n in pinned.items() if p not in spared})
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

    def pin_run(self, pid, new, spared, run, last):
        """One call: a run of the request, and what lies behind it as far as ``last``."""
        pinned = self.pinned[pid]
        # Reading: what a later call of the same request pins is left to that.
        behind = range(run[-1] + 1, last + 1)
        ahead = [page for page in behind if page not in pinned and page not in new]
        still = [page for page in new if page not in pinned]
        self.make_room(pid, spared, len(still) + len(ahead))
        self.counts["pin_calls"] += 1
        for page in run + ahead:
            pinned[page] = 1  # a page that is pinned ahead counts as used then
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
