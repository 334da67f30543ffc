"""Bytes copied one by one."""


def copy_bytes(target, to, source, start, count):
    """Copy ``count`` bytes from ``source[start:]`` to ``target[to:]``, the first one first."""
    for i in range(count):
        target[to + i] = source[start + i]
