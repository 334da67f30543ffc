"""A host's paged memory in dictionaries and objects: the slow twin of ``memory.paging``.

Written from ``docs/host-memory.md``.  Who refers to a frame or a block is looked up each time, not
counted.  Frames have numbers, as the clock goes over them in order; blocks have none.
"""

from collections import Counter

from nicscope.memory.paging import layout as code


class Block:
    def __init__(self, content):
        self.content = bytes(content)


class Frame:
    def __init__(self, number, page, content):
        self.number = number
        self.page = page
        self.content = bytearray(content)
        self.pins = 0
        self.pinner = None
        self.dirty = False
        self.referenced = True
        self.written_by_pinner = False
        self.copy = None  # a Block with the same content


class Page:
    def __init__(self, rights):
        self.rights = rights
        self.place = None  # a Frame, a Block, or None: all zeros, nowhere


class Host:
    def __init__(self, frames, page_size, spaces, pages, blocks, space_limit, host_limit):
        self.page_size = page_size
        self.page_count = pages
        self.blocks = blocks
        self.frame_count = frames
        self.limits = dict.fromkeys(range(spaces), space_limit)
        self.host_limit = host_limit
        self.pages = {}  # (space, page): Page
        self.free = list(range(frames - 1, 0, -1))
        self.used = {}  # number: Frame
        self.generation = dict.fromkeys(range(frames), 0)
        self.hand = 1
        self.at_work = None  # the number of the frame that the CPU works on, which stays
        self.work = Counter()
        self.faults = Counter()

    # Who refers to what.

    def users(self, frame):
        return [key for key, page in self.pages.items() if page.place is frame]

    def blocks_used(self):
        places = [page.place for page in self.pages.values()]
        places += [frame.copy for frame in self.used.values()]
        return len({id(place) for place in places if isinstance(place, Block)})

    def pinned(self, space=None):
        return sum(frame.pins > 0 and space in (None, frame.pinner) for frame in self.used.values())

    def tidy(self, frame):
        if frame.pins == 0 and not self.users(frame):
            del self.used[frame.number]
            self.generation[frame.number] += 1
            self.free.append(frame.number)

    # The swapper.

    def reclaim(self):
        for _ in range(2 * self.frame_count):
            number = self.hand
            self.hand = number % (self.frame_count - 1) + 1  # frame 0 is not among them
            frame = self.used.get(number)
            if frame is None or frame.pins > 0 or number == self.at_work:
                continue
            if frame.referenced:
                frame.referenced = False
            elif self.may_go(frame):
                self.take_out(frame)
                return True
        return False

    def may_go(self, frame):
        if frame.pins > 0 or frame.number == self.at_work:
            return False
        return not frame.dirty or self.blocks_used() < self.blocks

    def take_out(self, frame):
        if frame.dirty:
            frame.copy = Block(frame.content)
            self.work["page_outs"] += 1
        for key in self.users(frame):
            self.pages[key].place = frame.copy
        self.work["reclaimed"] += 1
        self.tidy(frame)

    def evict(self, space, number):
        page = self.pages.get((space, number))
        if page is None or not isinstance(page.place, Frame) or not self.may_go(page.place):
            return False
        self.take_out(page.place)
        return True

    def could_take(self):
        return bool(self.free) or any(map(self.may_go, self.used.values()))

    def keep_free(self, low_water):
        done = 0
        while len(self.free) < low_water and self.reclaim():
            done += 1
        return done

    def take(self, page, content, keep=None):
        """A new frame with ``content``; the frame ``keep`` is not reclaimed for it."""
        if keep is not None:
            keep.pins += 1
        found = bool(self.free) or self.reclaim()
        if keep is not None:
            keep.pins -= 1
        if not found:
            return None
        frame = Frame(self.free.pop(), page, content)
        self.used[frame.number] = frame
        return frame

    # Faults.

    def need(self, space, number, write):
        page = self.pages.get((space, number))
        if page is None:
            return code.NOT_MAPPED
        if not page.rights & (code.WRITE if write else code.READ):
            return code.DENIED
        if page.place is None:
            return code.ZERO
        if isinstance(page.place, Block):
            return code.DISK
        if write and (len(self.users(page.place)) > 1 or self.foreign(page.place, space)):
            return code.COPY
        return code.READY

    @staticmethod
    def foreign(frame, space):
        return frame.pins > 0 and frame.pinner != space

    def need_to_pin(self, space, number, write):
        needed = self.need(space, number, write)
        if needed < 0:
            return needed
        place = self.pages[space, number].place
        if isinstance(place, Frame) and place.pins > 0:
            if place.pinner == space:
                return needed
            needed = code.COPY
        limit = self.limits[space]
        if limit is not None and self.pinned(space) >= limit:
            return code.LIMIT
        if self.host_limit is not None and self.pinned() >= self.host_limit:
            return code.LIMIT
        return needed

    def provide(self, space, number, write, needed=None, discard=False):
        needed = self.need(space, number, write) if needed is None else needed
        if needed < 0:
            return needed
        page = self.pages[space, number]
        frame = page.place
        if needed == code.ZERO or (needed == code.DISK and discard):
            frame = self.take(number, bytes(self.page_size))
            if frame is None:
                return code.NO_FRAME
            self.work["zeroed"] += 1
            page.place = frame
        elif needed == code.DISK:
            block = page.place
            frame = self.take(number, block.content)
            if frame is None:
                return code.NO_FRAME
            self.work["page_ins"] += 1
            frame.copy = block
            page.place = frame
        elif needed == code.COPY:
            shared = page.place
            copy = self.copied(shared)
            if copy is None:
                return code.NO_FRAME
            if shared.pins > 0 and shared.pinner == space:
                for key in self.users(shared):
                    if key != (space, number):
                        self.pages[key].place = copy
            else:
                page.place = frame = copy
                self.tidy(shared)
        frame.referenced = True
        if write:
            frame.dirty = True
            frame.copy = None
        return frame.number

    def copied(self, frame):
        copy = self.take(frame.page, frame.content, keep=frame)
        if copy is not None:
            copy.dirty = True
            self.work["copied"] += 1
        return copy

    def provide_zeroed(self, space, number):
        return self.provide(space, number, 1, discard=True)

    # Pins.

    def pin(self, space, number, write):
        result = self.provide(space, number, write, self.need_to_pin(space, number, write))
        if result >= 0:
            frame = self.used[result]
            if frame.pins == 0:
                self.generation[result] += 1
                frame.pinner = space
                frame.written_by_pinner = False
            frame.pins += 1
            frame.written_by_pinner |= bool(write)
        return result

    def unpin(self, space, number):
        frame = self.used.get(number)
        if frame is None or frame.pins == 0 or frame.pinner != space:
            return code.DENIED
        frame.pins -= 1
        if frame.pins == 0:
            frame.pinner = None
            frame.written_by_pinner = False
        self.tidy(frame)
        return frame.pins

    # Spaces.

    def map(self, space, first, count, rights):
        if not 0 <= first <= first + count <= self.page_count:
            return code.OUTSIDE
        keys = [(space, page) for page in range(first, first + count)]
        if any(key in self.pages for key in keys):
            return code.ALREADY_MAPPED
        self.pages |= {key: Page(rights) for key in keys}
        return count

    def unmap(self, space, first, count):
        if not 0 <= first <= first + count <= self.page_count:
            return code.OUTSIDE
        gone = 0
        for page in range(first, first + count):
            page = self.pages.pop((space, page), None)
            if page is not None:
                gone += 1
                if isinstance(page.place, Frame):
                    self.tidy(page.place)
        return gone

    def protect(self, space, first, count, rights):
        if not 0 <= first <= first + count <= self.page_count:
            return code.OUTSIDE
        keys = [(space, page) for page in range(first, first + count)]
        if any(key not in self.pages for key in keys):
            return code.NOT_MAPPED
        for key in keys:
            self.pages[key].rights = rights
        return count

    def fork(self, parent, child):
        if any(space == child for space, _ in self.pages):
            return code.ALREADY_MAPPED
        for number in range(self.page_count):
            if (parent, number) in self.pages:
                page = self.pages[parent, number]
                place = page.place
                if isinstance(place, Frame) and place.pins > 0:
                    place = self.copied(place)
                    if place is None:
                        self.close(child)
                        return code.NO_FRAME
                # Making the copy may have swapped out other pages, but not this one.
                self.pages[child, number] = Page(page.rights)
                self.pages[child, number].place = place
        return sum(space == child for space, _ in self.pages)

    def close(self, space):
        return self.unmap(space, 0, self.page_count)

    # A program's accesses.

    def begin(self, space, address, write):
        """Where the CPU works, on a page that is there; its frame stays until ``end``."""
        page, offset = divmod(address, self.page_size)
        if self.need(space, page, write) != code.READY:
            return -1
        self.at_work = self.provide(space, page, write)
        return self.at_work * self.page_size + offset

    def end(self):
        self.at_work = None

    def ask(self, space, address, count, write):
        """0, or why the space may not; then the refusal is counted."""
        refusal = 0
        if address < 0 or address + count > self.page_count * self.page_size:
            refusal = code.NOT_MAPPED
        elif count > 0:
            last = (address + count - 1) // self.page_size
            needs = [
                self.need(space, page, write) for page in range(address // self.page_size, last + 1)
            ]
            refusal = next((need for need in needs if need < 0), 0)
        self.faults[space, "refusals"] += refusal < 0
        return refusal

    def access(self, space, address, count, write, data=b""):
        """``count`` and the bytes read, or a negative code and those before it."""
        got = b""
        refusal = self.ask(space, address, count, write)
        if refusal < 0:
            return refusal, got
        places = [divmod(address + i, self.page_size) for i in range(count)]
        for i, (page, offset) in enumerate(places):
            needed = self.need(space, page, write)
            if needed != code.READY:
                kinds = {code.ZERO: "zero_faults", code.COPY: "copy_faults"}
                self.faults[space, kinds.get(needed, "disk_faults")] += 1
            frame = self.provide(space, page, write)
            if frame < 0:
                return frame, got
            if write:
                self.used[frame].content[offset] = data[i]
            else:
                got += bytes([self.used[frame].content[offset]])
        return count, got
