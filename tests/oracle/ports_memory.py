"""The hosts' memories under programs on ports: pages that go to the disk, and who brings them.

What bytes a page has does not depend on where it is, so the frames here hold none.  Frames, the
clock and blocks are those of ``paging``.
"""

from oracle import paging
from oracle.ports_closing import Closing
from oracle.ports_records import NO_FRAME, READS

BOTH = 3  # rights: to read and to write
AT_HAND, TO_ZERO, ON_DISK = "at hand", "to be zeroed", "on disk"  # of a page that is to be pinned


class Paged(Closing):
    """Frames, swap, and the programs' own loads and stores."""

    def __init__(self, world, network):
        super().__init__(world, network)
        spaces = 2 * len(world.programs)  # of processes, and of what the system keeps of them
        self.hosts = [
            paging.Host(world.frames, 1, spaces, world.last_page + 1, world.blocks, None, None)
            for _ in self.nodes
        ]

    def map_memory(self, node, space, pages, written):
        """The process's memory, of which so many pages were written before it begins."""
        host = self.hosts[node.number]
        host.map(space, 0, pages, BOTH)
        for page in range(written):
            host.access(space, page, 1, 1, b"x")

    # --- what programs do themselves -------------------------------------------------------------

    def touch(self, node, process, what, address, count):
        """Load, or store what is there: what was loaded, and the time of the faults."""
        host, service = self.hosts[node.number], node.service
        before, writes = host.faults.copy(), what == "store"
        for page in self.pages_of(address, count):
            found, _ = host.access(process.number, page, 1, int(writes), b"x")
            if found < 0:
                return NO_FRAME, 0
        new = host.faults - before
        spent = {"zero_faults": service["zero"], "disk_faults": service["page_in"]}
        loaded = None if writes else self.read(node, process.number, address, count)
        return loaded, sum(spent[kind] * many for (_, kind), many in new.items())

    def swap_out(self, node, frames):
        """The operating system has so many frames free, if it can."""
        self.hosts[node.number].keep_free(frames)

    # --- pins ------------------------------------------------------------------------------------

    def place_of(self, node, space, page, path):
        """Where a page is that is to be pinned; None if it is not mapped."""
        needed = self.hosts[node.number].need_to_pin(space, page, int(path != READS))
        names = {paging.code.READY: AT_HAND, paging.code.ZERO: TO_ZERO, paging.code.DISK: ON_DISK}
        return names.get(needed)

    def is_out(self, node, space, page):
        return self.place_of(node, space, page, READS) == ON_DISK

    def pin_frame(self, node, space, page, *, write=True, zeroed=False):
        """Whether the page is pinned once more: not if it is not mapped, or there is no frame."""
        host = self.hosts[node.number]
        if zeroed and self.is_out(node, space, page) and host.provide_zeroed(space, page) >= 0:
            self.write(node, space, page * self.world.page, bytes(self.world.page))
        return host.pin(space, page, int(write)) >= 0

    def unpin_frame(self, node, space, page):
        host = self.hosts[node.number]
        host.unpin(space, host.pages[space, page].place.number)

    def bring(self, node, space, page, path):
        """Read the page from the disk, if there is a frame for it."""
        self.hosts[node.number].provide(space, page, int(path != READS))
