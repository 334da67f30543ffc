"""Pinned pages and whom the five policies give up, against a dict that is searched."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nicscope.memory.numbering import new_numbering, number
from nicscope.memory.pinning import (
    NOBODY,
    PINNED,
    can_give_up,
    grown_pinning,
    is_held,
    new_pinning,
    pin,
    unpin,
    use,
    use_or_exchange,
    victim_of,
)
from nicscope.memory.replacement import Replacement
from oracle.pinning import PlainList, PlainPinning, Xorshift

PROCESSES = 3
PAGES = 12  # per process
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("touch", "touch", "touch", "ahead", "give up", "give up", "unpin")),
        st.integers(0, PROCESSES - 1),
        st.integers(0, PAGES - 1),
        st.integers(0, 3),
    ),
    max_size=80,
)
# Pages 0 to 2: the first to come is used most, the second least, the last is the most recent.
USED_UNLIKE = [("touch", 0, page, 0) for page in (0, 0, 0, 1, 2, 2)]


class Host:
    """A numbering and pinned pages with room for a few processes."""

    def __init__(self, policy, seed=0, processes=PROCESSES, pages=PAGES):
        self.numbering = new_numbering(8)
        self.names = {
            (process, page): number(self.numbering, process, page)
            for process in range(processes)
            for page in range(pages)
        }
        room = max(self.names.values()) + 1
        self.pinning = grown_pinning(new_pinning(pages, policy, seed), room, processes)

    def pin(self, process, page, uses=1):
        pin(self.pinning, process, self.names[process, page], uses)

    def unpin(self, process, page):
        unpin(self.pinning, process, self.names[process, page])

    def use(self, process, page):
        use(self.pinning, process, self.names[process, page])

    def victim(self, process, first=-1, last=-1):
        name = victim_of(self.pinning, self.numbering, process, first, last)
        return next(page for (_, page), known in self.names.items() if known == name)

    def pinned(self):
        return {key for key, name in self.names.items() if self.pinning.state[name] & PINNED}

    def pinned_by_process(self):
        return [int(record["pinned"]) for record in self.pinning.processes]


@pytest.mark.requirement("UT-15", "UT-40", "UT-41", "UT-45")
@pytest.mark.parametrize("policy", ["lru", "mru", "lfu", "mfu"])
@given(steps=STEPS)
@example(steps=[*USED_UNLIKE, ("give up", 0, 9, 0)])
@example(steps=[*USED_UNLIKE, ("give up", 0, 0, 1)])  # the request's own pages stay
@example(steps=[*USED_UNLIKE, ("give up", 0, 2, 1)])
def test_a_policy_gives_up_the_page_that_a_search_finds(policy, steps):
    host = Host(Replacement[policy.upper()])
    plain = PlainPinning(policy)
    for step, process, page, reach in steps:
        request = range(page, page + reach)
        if step == "give up":
            if not plain.candidates(process, request):
                continue
            page = plain.victim(process, request)
            assert host.victim(process, request[0] if reach else -1, page_before(request)) == page
        if page in plain.of(process):
            for side in (host, plain):
                side.use(process, page) if step == "touch" else side.unpin(process, page)
        elif step in ("touch", "ahead"):
            for side in (host, plain):
                side.pin(process, page, 1 if step == "touch" else 0)
        assert host.pinned() == {(p, page) for p in plain.pages for page in plain.pages[p]}
        assert host.pinned_by_process() == [len(plain.of(p)) for p in range(PROCESSES)]


@pytest.mark.parametrize("policy", ["lru", "mru", "lfu", "mfu"])
def test_where_nobody_may_go_nobody_is_given_up(policy):
    host = Host(Replacement[policy.upper()])
    assert victim_of(host.pinning, host.numbering, 1, -1, -1) == NOBODY
    for page in (3, 4, 5):
        host.pin(1, page, uses=page)

    assert victim_of(host.pinning, host.numbering, 1, 3, 5) == NOBODY
    assert host.victim(1, 3, 4) == 5
    assert can_give_up(host.pinning, host.numbering, 1, 3, 4, 1)
    assert not can_give_up(host.pinning, host.numbering, 1, 3, 4, 2)


def test_a_page_that_a_transfer_holds_does_not_go():
    host = Host(Replacement.LRU)
    held = np.zeros(len(host.pinning.state), np.int32)
    host.pinning = host.pinning._replace(held=held)
    for page in (3, 4, 5):
        host.pin(1, page)
    held[host.names[1, 3]] = 1

    assert is_held(held, host.names[1, 3])
    assert host.victim(1) == 4
    assert can_give_up(host.pinning, host.numbering, 1, -1, -1, 2)
    assert not can_give_up(host.pinning, host.numbering, 1, -1, -1, 3)


def page_before(request):
    return request[-1] if request else -1


@pytest.mark.requirement("UT-40", "UT-45")
@given(seed=st.integers(0, 2**62), steps=STEPS)
def test_the_random_policy_draws_from_the_pages_outside_the_request(seed, steps):
    host = Host(Replacement.RANDOM, seed)
    generator = Xorshift(seed)
    lists = [PlainList() for _ in range(PROCESSES)]
    for step, process, page, reach in steps:
        members = lists[process].members
        request = range(page, page + reach)
        if step == "give up" and set(members) - set(request):
            expected = lists[process].victim(request, generator)
            assert host.victim(process, request[0] if reach else -1, page_before(request)) == (
                expected
            )
        elif step in ("touch", "ahead") and page not in members:
            host.pin(process, page)
            lists[process].pin(page)
        elif step == "unpin" and page in members:
            host.unpin(process, page)
            lists[process].unpin(page)
        assert host.pinned() == {(p, m) for p in range(PROCESSES) for m in lists[p].members}


@pytest.mark.requirement("UT-40")
def test_the_random_policy_favours_nobody():
    host = Host(Replacement.RANDOM, seed=7, pages=8)
    for page in range(8):
        host.pin(0, page)
    drawn = [host.victim(0, 2, 3) for _ in range(1800)]
    counts = [drawn.count(page) for page in range(8)]
    assert counts[2:4] == [0, 0]
    assert all(220 < count < 380 for count in counts[:2] + counts[4:])  # 300 each, on average


@pytest.mark.requirement("UT-40", "UT-45")
@pytest.mark.parametrize("policy", list(Replacement))
@given(
    limit=st.integers(1, 5),
    pages=st.lists(st.tuples(st.integers(0, 1), st.integers(0, PAGES - 1)), max_size=60),
)
def test_an_exchange_gives_up_the_victim_and_pins_the_page(policy, limit, pages):
    at_once, step_by_step = Host(policy), Host(policy)
    for process, page in [(process, page) for process in (0, 1) for page in range(limit)] + pages:
        pinned = [known for owner, known in step_by_step.pinned() if owner == process]
        if page in pinned:
            step_by_step.use(process, page)
            gone = None
        else:
            gone = step_by_step.victim(process) if len(pinned) == limit else None
            if gone is not None:
                step_by_step.unpin(process, gone)
            step_by_step.pin(process, page)
        if len(pinned) == limit:
            name = at_once.names[process, page]
            tag = use_or_exchange(at_once.pinning, process, name, policy)
            assert tag == (0 if gone is None else at_once.names[process, gone] + 1)
        else:
            at_once.pin(process, page)
        assert at_once.pinned() == step_by_step.pinned()
        assert at_once.pinned_by_process() == step_by_step.pinned_by_process()


@pytest.mark.parametrize("policy", list(Replacement))
def test_growth_keeps_pins_and_their_order(policy):
    small = Host(policy, processes=1)
    for page in (3, 1, 2):
        small.pin(0, page)
    small.pinning = grown_pinning(small.pinning, 8 * 16, 9)
    order = []
    while small.pinned():
        order.append(small.victim(0))
        small.unpin(0, order[-1])
    generator, plain = Xorshift(0), PlainList()
    for page in (3, 1, 2):
        plain.pin(page)
    drawn = []
    while plain.members:
        drawn.append(plain.victim((), generator))
        plain.unpin(drawn[-1])
    expected = {Replacement.MRU: [2, 1, 3], Replacement.RANDOM: drawn}
    assert order == expected.get(policy, [3, 1, 2])


def test_without_a_limit_only_the_fact_is_kept():
    pinning = grown_pinning(new_pinning(None, Replacement.LRU, 0), 100, 2)
    assert [len(part) for part in (pinning.links, pinning.buckets, pinning.places)] == [0, 0, 0]
    pin(pinning, 1, 42, 1)
    assert (pinning.state & PINNED).nonzero()[0].tolist() == [42]
    unpin(pinning, 1, 42)
    assert not (pinning.state & PINNED).any()
