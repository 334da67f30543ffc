"""What all schemes share: lookups and misses by path, pages that transfers use, ports that wait."""

# ruff: noqa: ARG002  (every scheme takes the same arguments; few need all of them)
from oracle.delivery_records import Action
from oracle.ports_firmware import MISS
from oracle.ports_library import Library
from oracle.ports_records import DONE, NO_RIGHTS, NO_ROOM
from oracle.replay_parts import runs_of


class Translating(Library):
    """A lookup, and what follows from it, by the rules of a scheme below."""

    needs_pinning = True  # by a user library

    def __init__(self, world, network):
        super().__init__(world, network)
        self.has_garbage = world.garbage

    def translate(self, node, space, page, path, half, then, repeated=False):
        """``then`` hears how it ended, and of which memory the page is."""
        counts = self.counts[node.number]
        counts["repeated" if repeated else f"lookups_{path}"] += 1
        if self.needs_pinning and not self.is_pinned(node, space, page) and not self.has_garbage:
            then(NO_RIGHTS, None)  # no library has entered it in a table
            return
        look = self.is_there if repeated else self.is_on_nic
        found = look(node, space, page)
        if found and self.is_fit(node, space, page, path):
            then(DONE, space)
            return
        misses = not found and not repeated and self.is_served(node, space, page)
        counts[f"misses_{path}"] += misses
        self.miss(node, space, page, half, then, path)

    def is_served(self, node, space, page):
        """Whether somebody has a translation of the page: else it is not a miss but a mistake."""
        return self.is_pinned(node, space, page)

    def is_on_nic(self, node, space, page):
        """Whether the lookup finds the page; it is used then."""
        raise NotImplementedError

    def is_fit(self, node, space, page, path):
        """Whether the page is pinned for what is to be done."""
        return True

    def is_there(self, node, space, page):
        """Whether a lookup that is repeated finds it; that is no use."""
        return self.is_on_nic(node, space, page)

    def miss(self, node, space, page, half, then, path):
        """Nobody serves it: the page is not registered."""
        node.processor = Action(MISS, self.now, self.now, half)
        node.processor.then = lambda: then(NO_RIGHTS, None)

    # --- pages in use ---------------------------------------------------------------------------

    def hold_page(self, node, space, page):
        """A transfer uses the page, which stays pinned; its entry may leave."""
        self.keep(node, space, [page])

    def let_go(self, node, space, page):
        """The transfer has ended."""
        self.leave(node, space, [page])


class Area(Translating):
    """U-Net's own: each process's area is pinned, and its pages are found by adding."""

    needs_pinning = False

    def map_memory(self, node, space, pages, written):
        super().map_memory(node, space, pages, 0)
        for page in range(pages):
            self.pin_frame(node, space, page)

    def could_pin(self, node, port, pages):
        return True

    def have_pinned(self, node, space, pages):
        return 0, DONE

    def is_served(self, node, space, page):
        return False

    def is_on_nic(self, node, space, page):
        return self.is_mapped(node, space, page)

    def miss(self, node, space, page, half, then, path):
        then(NO_RIGHTS, None)

    def unpin_last_used(self, node, port):
        pass  # the area is the process's

    def pinned_at_last(self):
        return [
            (*where, page)
            for where, memory in self.bytes.items()
            for page in range(len(memory) // self.world.page)
        ]


class Static(Translating):
    """A table of every registered page."""

    needs_pinning = False

    def could_pin(self, node, port, pages):
        return True

    def have_pinned(self, node, space, pages):
        """Pages that are used first are registered for good."""
        pins, fresh, status = self.pins_of(node, space), [], DONE
        for page in pages:
            if page in pins.pages:
                continue
            if self.registered_on(node) == self.world.settings["entries"]:
                status = NO_ROOM
                break
            if not self.is_mapped(node, space, page):
                status = NO_RIGHTS
            elif not self.pin_frame(node, space, page):
                status = status if status == NO_RIGHTS else NO_ROOM
            else:
                pins.pin(page, 1)
                self.pinned(node, space, page)
                fresh.append(page)
        return sum(self.world.user_pin[len(run)] for run in runs_of(fresh)), status

    def unpin_last_used(self, node, port):
        pass  # what is registered stays so

    def registered_on(self, node):
        return sum(len(one.pages) for (where, _), one in self.pins.items() if where == node.number)

    def is_served(self, node, space, page):
        """Whether somebody has a translation of the page: else it is not a miss but a mistake."""
        return self.is_pinned(node, space, page)

    def is_on_nic(self, node, space, page):
        return self.is_pinned(node, space, page)


class Tables(Translating):
    """A table for each process on the NIC, which is what limits its pins: UTLB, 3.1."""

    def __init__(self, world, network):
        super().__init__(world, network)
        self.limit = world.settings["entries"]

    def is_served(self, node, space, page):
        """Whether somebody has a translation of the page: else it is not a miss but a mistake."""
        return self.is_pinned(node, space, page)

    def is_on_nic(self, node, space, page):
        return self.is_pinned(node, space, page)

    def miss(self, node, space, page, half, then, path):
        then(DONE, None)  # the garbage page's entry
