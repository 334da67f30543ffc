"""A translation cache as one would first write it: per set, tags in order of use."""

from collections import OrderedDict


class PlainCache:
    """Sets of tags, each an OrderedDict of tag -> held, the least recent tag first."""

    def __init__(self, sets, ways):
        self.sets = [OrderedDict() for _ in range(sets)]
        self.ways = ways

    def row_of(self, tag):
        return tag % len(self.sets)

    def set_of(self, tag):
        return self.sets[self.row_of(tag)]

    def lookup(self, tag):
        entries = self.set_of(tag)
        if tag in entries:
            entries.move_to_end(tag)
        return tag in entries

    def further_ways(self, tag):
        """How many ways a search checks after the first, which is the most recent; 0 by index."""
        if self.ways > 16:
            return 0
        recent = list(reversed(self.set_of(tag)))
        return recent.index(tag) if tag in recent else self.ways - 1

    def fill(self, tag):
        """The tag that had to leave, 0 if none had to, None if every way is held."""
        entries = self.set_of(tag)
        evicted = 0
        if len(entries) == self.ways:
            evicted = next((old for old, held in entries.items() if not held), None)
            if evicted is None:
                return None
            del entries[evicted]
        entries[tag] = False
        return evicted

    def drop(self, tag):
        return self.set_of(tag).pop(tag, None) is not None
