"""The RANDOM policy end to end: with the same draws, the same counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_against_oracle import columns_of, design_of, offset, pieces

from nicscope.drivers.replay import replay
from oracle import replay as oracle
from oracle.pinning import PlainList, Xorshift
from oracle.strategies import cases


class Drawing:
    """Mixed into one of the oracle's UTLBs: keeps lists of pages and draws from them."""

    def begin(self, seed):
        self.generator = Xorshift(seed)
        self.lists = {}
        return self

    def make_room(self, pid, pages, needed):
        self.asking = pid, pages
        super().make_room(pid, pages, needed)

    def victim_among(self, candidates):
        pid, request = self.asking
        page = self.lists[pid].victim(request, self.generator)
        assert page in candidates
        return page

    def page_pinned(self, pid, page):
        super().page_pinned(pid, page)
        self.lists.setdefault(pid, PlainList()).pin(page)

    def page_unpinned(self, pid, page):
        super().page_unpinned(pid, page)
        self.lists[pid].unpin(page)


class DrawingUtlb(Drawing, oracle.Utlb):
    pass


class DrawingUtlbShared(Drawing, oracle.UtlbShared):
    pass


class DrawingUtlbProcess(Drawing, oracle.UtlbProcess):
    pass


TWINS = {
    "utlb": DrawingUtlb,
    "utlb-shared": DrawingUtlbShared,
    "utlb-process": DrawingUtlbProcess,
}


def counts_per_node(rows, flat):
    """What each node counts; node n begins its draws at the design's seed plus n."""
    design = {**oracle.DEFAULTS, **flat}
    nodes = []
    for number in sorted({row[1] for row in rows}):
        scheme = TWINS[flat["scheme"]](design, offset, None).begin(flat["seed"] + number)
        for _, node, pid, op, address, length in rows:
            if node == number:
                scheme.take(pid, oracle.PATHS[op], address, length)
        nodes.append({"node": number, **scheme.counts})
    return nodes


@pytest.mark.requirement("UT-40", "UT-45")
@pytest.mark.parametrize("scheme", list(TWINS))
@given(data=st.data(), seed=st.integers(0, 2**62))
def test_random_replacement_counts_what_its_twin_counts(scheme, data, seed):
    rows, flat = data.draw(cases([scheme], policies=["random"], max_bursts=20))
    flat |= {"replacement": "random", "seed": seed}
    cuts = data.draw(st.lists(st.integers(0, 50), max_size=3))
    result = replay(pieces(columns_of(rows), cuts), [design_of(flat)])[0]
    for want, got in zip(counts_per_node(rows, flat), result.nodes, strict=True):
        assert {name: got[name] for name in want} == want


def test_seeds_matter_and_only_they_do():
    rows = [(0, 0, 1, "send", 4096 * (7 * i * i % 41), 4096) for i in range(400)]
    flat = {"scheme": "utlb", "entries": 16, "pin_limit": 12, "replacement": "random"}
    found = [
        replay([columns_of(rows)], [design_of({**flat, "seed": seed})])[0].total["pins"]
        for seed in (1, 1, 2, 3, 4, 5)
    ]
    assert found[0] == found[1]
    assert len(set(found)) > 2
