"""Traces of transfers that come in pieces: runs of requests, each of which goes on where one ended.

And what is found in them slowly: from where to where each run reaches.
"""

from hypothesis import strategies as st

from oracle.replay import PATHS


@st.composite
def traces_of_runs(draw, page_size, most=12):
    """Rows of runs that are mostly aligned to some pages, cut into requests anywhere."""
    bits = draw(st.integers(0, 5))
    unit = page_size << bits
    rows = []
    for _ in range(draw(st.integers(1, most))):
        node, pid = draw(st.sampled_from([(0, 7), (0, 7), (0, 8), (1, 7)]))
        op = draw(st.sampled_from(["send", "send", "recv"]))
        start = draw(st.integers(0, 6)) * unit
        size = draw(st.integers(1, 3)) * unit
        ends = draw(st.lists(st.integers(1, size), max_size=4))
        begin = 0
        for end in [*sorted(ends), size]:
            if end > begin:
                rows.append((len(rows), node, pid, op, start + begin, end - begin))
            begin = max(begin, end)
    return rows


def edges_of(rows, page_size, by_process):
    """First pages of all runs, and the pages behind their last ones."""
    before = {}
    edges = set()
    for _, node, pid, op, address, length in rows:
        first, last = address // page_size, (address + length - 1) // page_size
        nic = (node, pid) if by_process else node
        old = before.get(nic)
        if old is None or old[0] != (pid, PATHS[op]) or first - old[1] not in (0, 1):
            edges.add(first)
            if old is not None:
                edges.add(old[1] + 1)
        before[nic] = ((pid, PATHS[op]), last)
    return edges | {last + 1 for _, last in before.values()}
