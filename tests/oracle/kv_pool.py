"""A pool of KV cache blocks and its layouts, one block at a time, from the words of the papers."""

from collections import OrderedDict


def serve(requests, capacity):
    """What each request finds and writes: lists of (found, slots).

    ``requests``: lists of blocks, each of which stands for those before it too.
    """
    pool = OrderedDict()  # block: slot, the one used last at the end
    free = iter(range(10**9))
    results = []
    for blocks in requests:
        found = 0
        for block in blocks:
            if block not in pool:
                break
            found += 1
        slots = []
        for block in blocks:
            if block in pool:
                pool.move_to_end(block)
            elif capacity is None or len(pool) < capacity:
                pool[block] = next(free)
            else:
                _, slot = pool.popitem(last=False)
                pool[block] = slot
            slots.append(pool[block])
        results.append((found, slots))
    return results


def pieces(run, size):
    """(offset, length) of each piece of a run; what remains is no piece of its own if it is small.

    Mooncake's transfer engine: the rest joins the piece before it up to a quarter of a slice.
    """
    found, at = [], 0
    while size is not None and run - at > size + size // 4:
        found.append((at, size))
        at += size
    return [*found, (at, run - at)]


def blocks_of(requests, block, prefix, generated):
    """Names of each request's full blocks, where only the common prefix is anybody else's.

    ``requests``: (tokens brought, tokens generated); ``prefix``: tokens that all begin with.
    """
    named = []
    for number, (brought, made) in enumerate(requests):
        names = []
        for place in range((brought + made if generated else brought) // block):
            end = (place + 1) * block
            shared = end <= prefix and end <= brought
            names.append(("all", place) if shared else (number, place))
        named.append(names)
    return named
