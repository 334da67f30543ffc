"""What the oracle's schemes are made of: a cache, the kinds of misses, what every scheme does."""

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
    "rejected_unregistered",
    "rejected_rights",
    "rejected_deregistered",
    "bytes_copied",
    "peak_pinned_pages",
    "mtt_l0_hits",
    "mtt_l0_misses",
    "mtt_l1_hits",
    "mtt_l1_misses",
    "mpt_lookups",
    "mpt_l0_hits",
    "mpt_l0_misses",
    "mpt_l1_hits",
    "mpt_l1_misses",
    "indirect_lookups",
    "icm_fetches",
    "regions",
    "mtt_entries",
    "icm_bytes",
    "entries_invalidated",
)


SECOND_LEVEL_ENTRIES = 1024


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

    def foresee(self, touches):
        """The (pid, address) of all requests to come, for what is registered ahead."""

    def finish(self):
        """The trace has ended."""

    def offset_of(self, pid):
        if not self.design["index_offset"]:
            return 0
        return self.offset(self.ordinals[pid], self.design["entries"] // self.design["ways"])

    def count_interrupt(self):
        """A miss interrupts the host, unless the host's kernel is the one that translates."""
        if self.design["served_by"] != "kernel":
            self.counts["interrupts"] += 1

    def count_pin(self, pages=1):
        self.counts["pins"] += pages
        self.pinned_pages += pages
        peak = max(self.counts["peak_pinned_pages"], self.pinned_pages)
        self.counts["peak_pinned_pages"] = peak

    def count_unpin(self):
        self.counts["unpins"] += 1
        self.pinned_pages -= 1
