"""What many caches miss, counted one cache at a time with lists and dicts."""

from collections import OrderedDict


def stack_distances(keys):
    """For each key, how many others were looked up since it was last; None if it never was."""
    recent = []  # most recent first
    distances = []
    for key in keys:
        distances.append(recent.index(key) if key in recent else None)
        if key in recent:
            recent.remove(key)
        recent.insert(0, key)
    return distances


class LruSet:
    """Up to ``capacity`` keys; a lookup tells whether the key was there and makes it recent."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.keys = OrderedDict()  # least recent first

    def look_up(self, key):
        hit = key in self.keys
        self.keys[key] = True
        self.keys.move_to_end(key)
        if len(self.keys) > self.capacity:
            self.keys.popitem(last=False)
        return hit


def fully_associative_misses(keys, capacity, skip=0):
    """Misses of one LRU cache with room for ``capacity`` keys; the first ``skip`` only fill it."""
    cache = LruSet(capacity)
    missed = [not cache.look_up(key) for key in keys]
    return sum(missed[skip:])


def misses_by_kind(keys, index, sets, ways, skip=0):
    """Misses of one set-associative LRU cache: (compulsory, capacity, conflict).

    The first ``skip`` lookups fill the caches and are not counted.
    """
    cache = [LruSet(ways) for _ in range(sets)]
    shadow = LruSet(sets * ways)
    seen = set()
    counts = {"compulsory": 0, "capacity": 0, "conflict": 0}
    for number, (key, place) in enumerate(zip(keys, index, strict=True)):
        hit = cache[place % sets].look_up(key)
        in_shadow = shadow.look_up(key)
        if number < skip:
            pass
        elif not hit and key not in seen:
            counts["compulsory"] += 1
        elif not hit:
            counts["conflict" if in_shadow else "capacity"] += 1
        seen.add(key)
    return counts["compulsory"], counts["capacity"], counts["conflict"]
