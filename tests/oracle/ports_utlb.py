"""UTLB: the NIC caches entries of tables in its host's memory, and reads what it misses by DMA."""

# ruff: noqa: ARG002  (every scheme takes the same arguments; few need all of them)
from oracle.delivery_records import TABLE, Action, Pci, Posted, Transfer
from oracle.ports_firmware import MISS
from oracle.ports_memory import BOTH
from oracle.ports_records import DONE, NO_RIGHTS
from oracle.ports_translation import Translating
from oracle.replay import Cache

SECOND_LEVEL = 1024
OFFSET_STEP = 0x29B27


class Entries(Cache):
    """A cache of the sizes that a design has."""

    def __init__(self, settings):
        ways = settings.get("ways", 1)
        step = OFFSET_STEP if settings.get("index_offset", True) else 0
        super().__init__(settings["entries"] // ways, ways, lambda space: space * step)

    def place_of(self, key):
        space, number = key
        return (number + self.offset_of(space)) % len(self.sets)

    def use(self, key):
        if key in self:
            self.touch(key)
        return key in self


class Utlb(Translating):
    """One cache for all processes of a node, by process and page."""

    def __init__(self, world, network):
        super().__init__(world, network)
        self.caches = [Entries(world.settings) for _ in self.nodes]
        self.prefetch = world.settings.get("prefetch", 1)
        self.waiting = {}  # node: the miss that waits for the bus

    # --- names of pages, which are the processes' own here ---------------------------------------

    def number_of(self, node, space, page):
        """By which the page is known, None if it has no name."""
        return page

    def page_of(self, node, space, number):
        """The pinned page that is known so, or None."""
        return number if self.is_pinned(node, space, number) else None

    # --- lookups --------------------------------------------------------------------------------

    def further_ways(self, node, space, page):
        number = self.number_of(node, space, page)
        if number is None or not self.is_pinned(node, space, page):
            return 0
        return self.caches[node.number].further_ways((space, number))

    def is_on_nic(self, node, space, page):
        number = self.number_of(node, space, page)
        return number is not None and self.caches[node.number].use((space, number))

    def unpin(self, node, space, page):
        """What leaves the table leaves the NIC."""
        self.caches[node.number].drop((space, self.number_of(node, space, page)))
        super().unpin(node, space, page)

    def miss(self, node, space, page, half, then, path):
        node.processor = Action(MISS, self.now, None, half)
        node.processor.then = lambda: self.fetched(node, space, page, half, then)
        if half is not None:
            node.rx = None  # the receive is posted when the page is known
        self.fetch(node)

    def fetch(self, node):
        """The processor waits for the bus, then for the entry, whose DMA takes the bus at first."""
        if node.pci is not None:
            self.waiting[node.number] = node
            return
        node.processor.ends = self.now + node.service["fetch"]
        begins = self.now + node.service["table_dma"]
        node.pci = Pci(False, None, self.now, Transfer(begins, 0, 1))

    def fetched(self, node, space, page, half, then):
        """Entries are put in as they were in the table; what is not pinned is nobody's."""
        if half is not None:
            node.rx = Posted(half, self.now)
        if not self.is_pinned(node, space, page):
            then(*((DONE, None) if self.has_garbage else (NO_RIGHTS, None)))
            return
        first = self.number_of(node, space, page)
        end = min(first + self.prefetch, (first // SECOND_LEVEL + 1) * SECOND_LEVEL)
        for number in range(first, end):
            if self.page_of(node, space, number) is not None:
                self.caches[node.number].insert((space, number))
        then(DONE, space)

    # --- the bus --------------------------------------------------------------------------------

    def pci_ends(self, node):
        if node.pci.half is None:
            self.record(None, node, TABLE, node.pci.start, 0)
            node.pci = None
        else:
            super().pci_ends(node)
        if self.waiting.pop(node.number, None):
            self.fetch(node)

    def pending_of(self, node):
        action = node.processor
        waits = action is not None and action.ends is None
        if waits:
            node.processor = None
        yield from list(super().pending_of(node))
        if waits:
            node.processor = action


class UtlbSecondLevel(Utlb):
    """Entries fill a page of the host (UTLB, 3.3), which takes a frame when one is written."""

    def __init__(self, world, network):
        super().__init__(world, network)
        self.tables_behind = max(len(self.spaces_of(node)) for node in self.nodes)

    def spaces_of(self, node):
        return [one for one in self.world.programs if one.node == node.number]

    def map_memory(self, node, space, pages, written):
        super().map_memory(node, space, pages, written)
        self.hosts[node.number].map(self.tables_behind + space, 0, 1, BOTH)

    def have_pinned(self, node, space, pages):
        if not all(self.is_pinned(node, space, page) for page in pages):
            self.hosts[node.number].provide(self.tables_behind + space, 0, 1)
        return super().have_pinned(node, space, pages)


class UtlbShared(Utlb):
    """By process and place in its table; the lowest place that is free is the next: UTLB, 3.2."""

    def __init__(self, world, network):
        super().__init__(world, network)
        self.tables = {}  # (node, space): {number: page}

    def table_of(self, node, space):
        return self.tables.setdefault((node.number, space), {})

    def pinned(self, node, space, page):
        table = self.table_of(node, space)
        table[next(place for place in range(len(table) + 1) if place not in table)] = page
        super().pinned(node, space, page)

    def unpin(self, node, space, page):
        number = self.number_of(node, space, page)
        super().unpin(node, space, page)
        del self.table_of(node, space)[number]

    def number_of(self, node, space, page):
        table = self.table_of(node, space)
        return next((number for number, held in table.items() if held == page), None)

    def page_of(self, node, space, number):
        return self.table_of(node, space).get(number)
