"""A pool cut into regions the slow way: unit by unit, beginning a region when one is full."""


def multiple(block, page):
    """The least number of bytes that holds whole blocks and whole pages."""
    size = block
    while size % page:
        size += block
    return size


def cut(byte_count, block, page, most):
    """Bytes of each region, filled as far as they go; None where no block fits."""
    if block > most:
        return None
    unit = multiple(block, page)
    if unit > most:
        unit = block
    regions, room = [], 0
    at = 0
    while at + unit <= byte_count:
        if room < unit:
            regions.append(0)
            room = most
        regions[-1] += unit
        room -= unit
        at += unit
    return regions


def entries(regions, page):
    """Pages that each region has a part of, one by one."""
    offset = count = 0
    for size in regions:
        count += len(
            {byte // page for byte in (*range(offset, offset + size, page), offset + size - 1)}
        )
        offset += size
    return count
