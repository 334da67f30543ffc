"""Descriptors that a transfer library makes of requests, one after the other in a list."""


def descriptors(requests, joins, slice_bytes, most_bytes):
    """Sizes; ``requests``: (who, address, length) in the order of issue."""
    runs = []
    for who, address, length in requests:
        if joins and runs and runs[-1][0] == who and sum(runs[-1][1:]) == address:
            runs[-1][2] += length
        else:
            runs.append([who, address, length])
    sizes = []
    for _, _, left in runs:
        if slice_bytes is None:
            while left > most_bytes:
                sizes.append(most_bytes)
                left -= most_bytes
            sizes += [left] * (left > 0)
            continue
        pieces = []
        while left > 0:
            pieces.append(min(slice_bytes, left))
            left -= pieces[-1]
        if len(pieces) > 1 and pieces[-1] <= slice_bytes // 4:
            last = pieces.pop()
            pieces[-1] += last
        sizes += pieces
    return sizes
