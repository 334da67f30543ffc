"""Pinned pages as one would first write them: a dict per process, searched for every victim."""


class PlainPinning:
    """Per process: page -> [uses, moment of the last use]."""

    def __init__(self, policy):
        self.policy = policy
        self.pages = {}
        self.now = 0

    def of(self, process):
        return self.pages.setdefault(process, {})

    def moment(self):
        self.now += 1
        return self.now

    def pin(self, process, page, uses):
        self.of(process)[page] = [uses, self.moment()]

    def unpin(self, process, page):
        del self.of(process)[page]

    def use(self, process, page):
        record = self.of(process)[page]
        record[0] += 1
        record[1] = self.moment()

    def candidates(self, process, request):
        return [page for page in self.of(process) if page not in request]

    def victim(self, process, request):
        """The page to give up among those outside ``request``; equals: least recently used."""
        pages = self.of(process)
        key = {
            "lru": lambda page: pages[page][1],
            "mru": lambda page: -pages[page][1],
            "lfu": lambda page: tuple(pages[page]),
            "mfu": lambda page: (-pages[page][0], pages[page][1]),
        }[self.policy]
        return min(self.candidates(process, request), key=key)


class Xorshift:
    """Marsaglia's generator with shifts 13, 7 and 17 on 64 bits.

    It begins at the first output of SplitMix64 for the seed, or at 1 if that is 0.
    """

    def __init__(self, seed):
        mixed = seed + 0x9E3779B97F4A7C15 & 2**64 - 1
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & 2**64 - 1
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & 2**64 - 1
        self.state = mixed ^ mixed >> 31 or 1

    def below(self, choices):
        state = self.state
        state ^= state << 13 & 2**64 - 1
        state ^= state >> 7
        state ^= state << 17 & 2**64 - 1
        self.state = state
        return (state >> 33) % choices


class PlainList:
    """The pinned pages of a process under RANDOM: a hole is filled with the last page."""

    def __init__(self):
        self.members = []

    def pin(self, page):
        self.members.append(page)

    def unpin(self, page):
        place = self.members.index(page)
        last = self.members.pop()
        if last != page:
            self.members[place] = last

    def victim(self, request, generator):
        """Drawn until it is outside ``request``."""
        while True:
            page = self.members[generator.below(len(self.members))]
            if page not in request:
                return page
