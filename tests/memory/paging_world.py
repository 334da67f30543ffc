"""One host under random operations, beside its twin and beside what programs and pins must see."""

import numpy as np

from nicscope.memory.paging import layout as code
from nicscope.memory.paging.frames import (
    could_take_frame,
    evict_page,
    keep_free,
    may_transfer,
    may_transfer_into,
    need,
    need_to_pin,
    pin_page,
    provide,
    provide_zeroed,
    reclaim,
    unpin_frame,
)
from nicscope.memory.paging.layout import new_memory
from nicscope.memory.paging.spaces import (
    close_space,
    fork_space,
    lock_address,
    map_pages,
    may_access,
    move_bytes,
    protect_pages,
    unlock_address,
    unmap_pages,
)
from oracle.paging import Host
from oracle.paging_checks import check_equal, check_invariants, page_bytes

SPACES = 3
PAGES = 4
PAGE_SIZE = 4
HOST = 1  # of two


class Pin:
    def __init__(self, space, frame, generation, content, write):
        self.space = space
        self.frame = frame
        self.generation = generation
        self.content = content  # the bytes of the page that was pinned, as long as it lives
        self.write = write


class World:
    """Each operation is done by the memory and by its twin; results must be equal.

    ``seen`` knows nothing of frames: it has the bytes of each mapped page.
    """

    def __init__(self, frames=4, blocks=4, space_limit=None, host_limit=None):
        self.memory = new_memory(
            2,
            frames,
            PAGE_SIZE,
            SPACES,
            PAGES,
            blocks,
            space_pin_limit=space_limit,
            host_pin_limit=host_limit,
        )
        self.twin = Host(frames, PAGE_SIZE, SPACES, PAGES, blocks, space_limit, host_limit)
        self.seen = {}
        self.held = []
        self.given_up = []
        self.reached = set()  # kinds of result, so that a test can say what it came upon

    def do(self, name, *arguments):
        result = getattr(self, name)(*arguments)
        self.reached.add((name, min(int(result), 0)))
        return result

    def agree(self, got, expected):
        assert got == expected
        return got

    def state(self, space, page):
        return self.memory.entries[HOST, space, page]["state"]

    # Operations; each returns what the memory returned.

    def map(self, space, first, count, rights):
        result = self.agree(
            map_pages(self.memory, HOST, space, first, count, rights),
            self.twin.map(space, first, count, rights),
        )
        for page in range(first, first + max(result, 0)):
            self.seen[space, page] = bytearray(PAGE_SIZE)
        return result

    def unmap(self, space, first, count):
        result = self.agree(
            unmap_pages(self.memory, HOST, space, first, count),
            self.twin.unmap(space, first, count),
        )
        if result >= 0:
            for page in range(first, first + count):
                self.seen.pop((space, page), None)
        return result

    def protect(self, space, first, count, rights):
        return self.agree(
            protect_pages(self.memory, HOST, space, first, count, rights),
            self.twin.protect(space, first, count, rights),
        )

    def fork(self, parent, child):
        result = self.agree(
            fork_space(self.memory, HOST, parent, child), self.twin.fork(parent, child)
        )
        if result >= 0:
            for (space, page), content in list(self.seen.items()):
                if space == parent:
                    self.seen[child, page] = bytearray(content)
        return result

    def close(self, space):
        result = self.agree(close_space(self.memory, HOST, space), self.twin.close(space))
        for page in range(PAGES):
            self.seen.pop((space, page), None)
        return result

    def write(self, space, address, data):
        array = np.frombuffer(bytes(data), np.uint8).copy()
        result = self.agree(
            move_bytes(self.memory, HOST, space, address, array, len(data), 1),
            self.twin.access(space, address, len(data), 1, data)[0],
        )
        if result == len(data) or result == code.NO_FRAME:
            self.note_written(space, address, data, result == code.NO_FRAME)
        return result

    def note_written(self, space, address, data, only_some_pages):
        for page in range(PAGES):
            inside = range(page * PAGE_SIZE, (page + 1) * PAGE_SIZE)
            after = bytearray(self.seen.get((space, page), b""))
            for i, byte in enumerate(data):
                if address + i in inside:
                    after[address + i - inside.start] = byte
            if (space, page) not in self.seen or after == self.seen[space, page]:
                continue
            if only_some_pages and page_bytes(self.memory, HOST, space, page) != after:
                break  # this page and those behind it: not written
            self.seen[space, page][:] = after

    def read(self, space, address, count):
        out = np.zeros(max(count, 1), np.uint8)
        result, expected = self.twin.access(space, address, count, 0)
        self.agree(move_bytes(self.memory, HOST, space, address, out, count, 0), result)
        assert out[: len(expected)].tobytes() == expected
        if result == count:
            every = {key: bytes(content) for key, content in self.seen.items()}
            places = [divmod(address + i, PAGE_SIZE) for i in range(count)]
            assert expected == bytes(every[space, page][offset] for page, offset in places)
        return result

    def ask(self, space, address, count, write):
        return self.agree(
            may_access(self.memory, HOST, space, address, count, write),
            self.twin.ask(space, address, count, write),
        )

    def touch(self, space, page, write):
        needed = need(self.memory, HOST, space, page, write)
        assert needed == self.twin.need(space, page, write)
        result = self.agree(
            provide(self.memory, HOST, space, page, write), self.twin.provide(space, page, write)
        )
        if result >= 0:
            assert need(self.memory, HOST, space, page, write) == code.READY
        else:
            assert result == (needed if needed < 0 else code.NO_FRAME)
        return result

    def renew(self, space, page):
        absent = 0 <= page < PAGES and self.state(space, page) != code.PRESENT
        result = self.agree(
            provide_zeroed(self.memory, HOST, space, page), self.twin.provide_zeroed(space, page)
        )
        if result >= 0 and absent:
            self.seen[space, page][:] = bytes(PAGE_SIZE)
        return result

    def pin(self, space, page, write):
        needed = need_to_pin(self.memory, HOST, space, page, write)
        assert needed == self.twin.need_to_pin(space, page, write)
        result = self.agree(
            pin_page(self.memory, HOST, space, page, write), self.twin.pin(space, page, write)
        )
        if result >= 0:
            generation = int(self.memory.frames[HOST, result]["generation"])
            self.held.append(Pin(space, result, generation, self.seen[space, page], write))
        else:
            assert result == (needed if needed < 0 else code.NO_FRAME)
        return result

    def unpin(self, choice):
        if not self.held:
            return 0
        pin = self.held.pop(choice % len(self.held))
        self.given_up.append(pin)
        return self.agree(
            unpin_frame(self.memory, HOST, pin.space, pin.frame),
            self.twin.unpin(pin.space, pin.frame),
        )

    def unpin_any(self, space, frame):
        """An unpin that a hostile caller makes up: only its own pins may go."""
        mine = [pin for pin in self.held if (pin.space, pin.frame) == (space, frame)]
        result = self.agree(
            unpin_frame(self.memory, HOST, space, frame), self.twin.unpin(space, frame)
        )
        assert (result >= 0) == bool(mine)
        if mine:
            # Which of the pins it was nobody can tell: keep those that allow more.
            mine.sort(key=lambda pin: pin.write)
            self.held.remove(mine[0])
            self.given_up.append(mine[0])
        return result

    def transfer(self, choice, data):
        """The interface writes to a page by a translation, if that still stands."""
        known = [*self.held, *self.given_up]
        if not known:
            return 0
        pin = known[choice % len(known)]
        if not may_transfer_into(self.memory, HOST, pin.frame, pin.generation):
            return code.DENIED
        start = pin.frame * PAGE_SIZE
        self.memory.bytes[HOST, start : start + PAGE_SIZE] = np.frombuffer(bytes(data), np.uint8)
        self.twin.used[pin.frame].content[:] = bytes(data)
        pin.content[:] = bytes(data)
        return PAGE_SIZE

    def reclaim(self):
        return self.agree(bool(reclaim(self.memory, HOST)), self.twin.reclaim())

    def keep_free(self, low_water):
        return self.agree(keep_free(self.memory, HOST, low_water), self.twin.keep_free(low_water))

    def evict(self, space, page):
        return self.agree(
            bool(evict_page(self.memory, HOST, space, page)), self.twin.evict(space, page)
        )

    def begin(self, space, address, write):
        """The CPU begins to work at an address; what it had worked at before is done."""
        self.end()
        result = self.agree(
            lock_address(self.memory, HOST, space, address, write),
            self.twin.begin(space, address, write),
        )
        if result >= 0:
            assert self.memory.hosts[HOST]["accessed"] == result // PAGE_SIZE
        return result

    def end(self):
        unlock_address(self.memory, HOST)
        self.twin.end()
        return 0

    # What holds after each.

    def check(self):
        memory = self.memory
        check_invariants(memory, HOST)
        check_equal(memory, HOST, self.twin)
        assert bool(could_take_frame(memory, HOST)) == self.twin.could_take()
        for (space, page), content in self.seen.items():
            assert page_bytes(memory, HOST, space, page) == content
        for pin in self.held:
            assert may_transfer(memory, HOST, pin.frame, pin.generation)
            start = pin.frame * PAGE_SIZE
            assert memory.bytes[HOST, start : start + PAGE_SIZE].tobytes() == pin.content
        for old in self.given_up:
            # It stands only through another pin of the same page by the same space.
            if may_transfer(memory, HOST, old.frame, old.generation):
                assert any(pin.content is old.content for pin in self.held)
        assert not memory.bytes[0].any()
        assert not memory.entries[0]["state"].any()
