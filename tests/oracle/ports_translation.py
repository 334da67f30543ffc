"""How NICs that serve ports find pages, scheme by scheme, and what the user library does for it."""

from __future__ import annotations

from oracle.delivery import TABLE, Action, Pci, Posted, Transfer
from oracle.ports import DONE, NO_RIGHTS
from oracle.ports_firmware import MISS
from oracle.ports_transport import Reliable

STATIC, UTLB, TABLES = "static", "utlb", "tables"
SCHEMES = {
    "vmmc-static": STATIC,
    "utlb": UTLB,
    "utlb-shared": UTLB,
    "utlb-process": TABLES,
}


class Translating(Reliable):
    """Tables that hold every registered page, or a cache of entries read from the host's."""

    def __init__(self, world, is_lost):
        super().__init__(world, is_lost)
        self.scheme = SCHEMES[world.design]
        self.registered = set()  # (node, space, page): pinned by the library
        self.cached = set()  # likewise: on the NIC
        self.waiting = {}  # node: the miss that waits for the bus

    def library(self, node, process, pages):
        """The time to look pages up and have the missing ones pinned, one call for each run."""
        cost = 0 if self.scheme == STATIC else len(pages) * node.service["check"]
        run = 0
        for page in pages:
            key = node.number, process.number, page
            mapped = (page + 1) * self.world.page <= len(self.bytes[key[:2]])
            if key in self.registered or not mapped:
                cost, run = cost + self.world.user_pin[run], 0
            else:
                self.registered.add(key)
                run += 1
        return cost + self.world.user_pin[run]

    def translate(self, node, space, page, half, then):
        """``then`` hears how it ended, and of which memory the page is."""
        key = node.number, space, page
        if key in (self.cached if self.scheme == UTLB else self.registered):
            then(DONE, space)
        elif self.scheme != UTLB:
            node.processor = Action(MISS, self.now, self.now, half)
            node.processor.then = lambda: then(NO_RIGHTS, None)
        elif not any(key[:2] == one[:2] for one in self.registered):
            then(NO_RIGHTS, None)  # the directory says that there is no table to read from
        else:
            node.processor = Action(MISS, self.now, None, half)
            node.processor.then = lambda: self.fetched(node, key, half, then)
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

    def fetched(self, node, key, half, then):
        """What is not pinned has the garbage page in its entry, which is not cached."""
        if half is not None:
            node.rx = Posted(half, self.now)
        if key in self.registered:
            self.cached.add(key)
            then(DONE, key[1])
        else:
            then(DONE, None)

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
