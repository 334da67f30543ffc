"""The user library of a process: which pages it has pinned, whom it unpins, what its calls take."""

# ruff: noqa: ARG002  (every scheme takes the same arguments; few need all of them)
from collections import Counter, OrderedDict

from oracle.pinning import PlainList, Xorshift
from oracle.ports_memory import Paged
from oracle.ports_records import DONE, NO_RIGHTS, NO_ROOM
from oracle.replay_parts import runs_of


class Pins:
    """Pages of one process: uses of each, the least recently used first."""

    def __init__(self, limit, policy, generator):
        self.limit, self.policy, self.generator = limit, policy, generator
        self.pages = OrderedDict()
        self.members = PlainList()  # in the order in which RANDOM draws
        self.kept = Counter()  # by requests that have not ended

    def pin(self, page, uses):
        self.pages[page] = uses
        self.members.pin(page)

    def unpin(self, page):
        del self.pages[page]
        self.members.unpin(page)

    def use(self, page):
        self.pages[page] += 1
        self.pages.move_to_end(page)

    def may_go(self, asked):
        return [page for page in self.pages if page not in asked and not self.kept[page]]

    def surplus(self, count):
        """How many must go before ``count`` more are pinned."""
        return 0 if self.limit is None else len(self.pages) + count - self.limit

    def victim(self, asked):
        candidates = self.may_go(asked)
        if self.policy == "random":
            others = [page for page in self.pages if page not in candidates]
            return self.members.victim(others, self.generator)
        if self.policy in ("lru", "mru"):
            return candidates[0 if self.policy == "lru" else -1]
        choose = min if self.policy == "lfu" else max
        return choose(candidates, key=self.pages.get)


class Library(Paged):
    """Checks, makes room, pins run by run: UTLB, 3.1 and 3.4.  Without a limit nobody goes."""

    def __init__(self, world, network):
        super().__init__(world, network)
        settings = world.settings
        self.pins = {}  # (node, space)
        limit = settings.get("pin_limit", "none")
        self.limit = None if limit == "none" else limit
        self.policy = settings.get("replacement", "lru")
        self.prepin = settings.get("prepin", 1)
        seed = settings.get("seed", 0)
        self.generators = [Xorshift(seed + node.number) for node in self.nodes]
        self.counts = [Counter() for _ in self.nodes]

    def pins_of(self, node, space):
        made = Pins(self.limit, self.policy, self.generators[node.number])
        return self.pins.setdefault((node.number, space), made)

    def is_pinned(self, node, space, page):
        return page in self.pins_of(node, space).pages

    def is_mapped(self, node, space, page):
        return (page + 1) * self.world.page <= len(self.bytes[node.number, space])

    def could_pin(self, node, port, pages):
        """Whether the library need not wait: what never fits, or waits for nothing, is refused."""
        pins = self.pins_of(node, port.space)
        if not self.is_under_way(port) or (pins.limit is not None and len(pages) > pins.limit):
            return True
        missing = sum(page not in pins.pages for page in pages)
        return missing == 0 or pins.surplus(missing) <= len(pins.may_go(pages))

    def have_pinned(self, node, space, pages):
        """Have the pages pinned: what that takes, and a status."""
        pins, cost = self.pins_of(node, space), len(pages) * node.service["check"]
        missing = [page for page in pages if page not in pins.pages]
        if pins.limit is not None and len(pages) > pins.limit:
            return cost, NO_ROOM
        if missing and pins.surplus(len(missing)) > len(pins.may_go(pages)):
            return cost, NO_ROOM
        for page in pages:
            if page in pins.pages:
                pins.use(page)
        spared = self.spared(pins, pages, missing)
        cost += self.make_room(node, space, spared, len(missing))
        refused = [page for page in missing if not self.is_mapped(node, space, page)]
        for run in runs_of(missing):
            cost += self.pin_run(node, space, run, pages, missing, spared)
        if refused:
            return cost, NO_RIGHTS
        return cost, DONE if all(page in pins.pages for page in pages) else NO_ROOM

    def spared(self, pins, pages, missing):
        """What no call for ``pages`` takes away: they, and what is pinned ahead or found there.

        Where transfers keep so much that the rest would not do, less is spared.
        """
        if not missing:
            return list(pages)
        last = min(runs_of(missing)[-1][0] + self.prepin - 1, self.world.last_page)
        if pins.limit is not None:
            last = min(last, pages[0] + pins.limit - 1)
        last = max(last, pages[-1])
        while last > pages[-1]:
            if pins.surplus(len(missing)) <= len(pins.may_go(range(pages[0], last + 1))):
                break
            last -= 1
        return list(range(pages[0], last + 1))

    def make_room(self, node, space, spared, count):
        """Unpin until so many more may be pinned; what that takes."""
        pins, cost = self.pins_of(node, space), 0
        while count and pins.surplus(count) > 0:
            self.unpin(node, space, pins.victim(spared))
            cost += self.world.user_unpin[1]
        return cost

    def pin_run(self, node, space, run, pages, missing, spared):
        """One call, which names pages that are not mapped too; what room for it and it take."""
        pins = self.pins_of(node, space)
        last = min(run[0] + self.prepin - 1, spared[-1])
        ahead = range(pages[-1] + 1, last + 1)
        while ahead:
            needed = len(missing) + sum(page not in pins.pages for page in ahead)
            if pins.surplus(needed) <= len(pins.may_go(spared)):
                break
            ahead = ahead[:-1]
        ahead = [page for page in ahead if page not in pins.pages]
        cost = self.make_room(node, space, spared, len(missing) + len(ahead))
        called = run + ahead
        for page in run:
            missing.remove(page)
        for page in called:
            if self.pin_frame(node, space, page):
                pins.pin(page, 1)
                self.pinned(node, space, page)
        return cost + self.world.user_pin[len(called)]

    def pinned(self, node, space, page):
        """It may be found by the NIC."""
        self.counts[node.number]["pins"] += 1

    def unpin(self, node, space, page):
        """It may not be found any more."""
        self.pins_of(node, space).unpin(page)
        self.unpin_frame(node, space, page)
        self.counts[node.number]["unpins"] += 1

    def unpin_last_used(self, node, port):
        """All but what is registered for an export."""
        pins = self.pins_of(node, port.space)
        for page in pins.may_go(()):
            self.unpin(node, port.space, page)

    def pinned_at_last(self):
        return [(*where, page) for where, pins in self.pins.items() for page in pins.pages]

    def keep(self, node, space, pages):
        self.pins_of(node, space).kept.update(pages)

    def leave(self, node, space, pages):
        self.pins_of(node, space).kept.subtract(pages)
