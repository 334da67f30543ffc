"""Copying a buffer or registering it, size by size: the twin of ``studies.registering``.

Written from ``docs/register.md``: a copy takes its start and its bytes, a registration its call and
each page that has begun.
"""


def sizes(start, byte, call, each, page, most):
    """Whether registering takes no longer, for every size up to ``most``."""
    found = []
    for size in range(1, most + 1):
        pages = 0
        while pages * page < size:
            pages += 1
        found.append(call + pages * each <= start + size * byte)
    return found


def first(pays):
    """The first size of those at which registering takes no longer."""
    for size, so in enumerate(pays, 1):
        if so:
            return size
    return None


def surely(pays):
    """The size from which on it is so for all of them."""
    size = len(pays) + 1
    while size > 1 and pays[size - 2]:
        size -= 1
    return size if size <= len(pays) else None
