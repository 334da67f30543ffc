"""Paging on demand against its slow twin, and a memory that grows on the way."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nicscope.host.on_demand import (
    COUNTS,
    WHOLE,
    Asked,
    map_more,
    new_on_demand,
    use_requests,
    use_rest,
)
from nicscope.memory.paging.layout import grown_memory, new_memory
from oracle.on_demand import Twin

PAGES = 24
REQUESTS = st.lists(st.tuples(st.integers(0, PAGES - 1), st.integers(1, 6)), max_size=40)


def asked(requests):
    numbers = [page for _, pages in requests for page in pages]
    ends = np.cumsum([len(pages) for _, pages in requests], dtype=np.int64)
    first = np.array([first for first, _ in requests], np.int64)
    return Asked(first, ends, np.array(numbers, np.int64))


def used(requests, piece, advises, ahead, frames):
    """In two halves, of which the second finds a memory that has grown."""
    half = PAGES // 2
    memory = new_memory(1, frames, 1, 1, half, half)
    map_more(memory, 0, half)
    bits = WHOLE if piece is None else piece.bit_length() - 1
    state = new_on_demand(memory, bits, advises, ahead)
    low = next(
        (place for place, (_, pages) in enumerate(requests) if max(pages) >= half), len(requests)
    )
    use_requests(state, asked(requests[:low]), 0, low)
    state = state._replace(memory=grown_memory(memory, frames, PAGES, PAGES))
    map_more(state.memory, half, PAGES - half)
    known = min(low, ahead)
    rest = requests[low - known :]
    use_requests(state, asked(rest), known, len(rest))
    waiting = rest[len(rest) - min(ahead, len(rest)) :]
    use_rest(state, asked(waiting), len(waiting))
    return state


@given(
    REQUESTS,
    st.sampled_from((1, 2, 4, None)),
    st.booleans(),
    st.integers(0, 4),
    st.integers(2, PAGES + 2),
)
def test_it_faults_and_moves_what_the_twin_does(spans, piece, advises, ahead, frames):
    ahead = ahead if advises else 0
    # A page's number is not its place in the process.
    requests = [
        (first, [(7 * page) % PAGES for page in range(first, min(first + count, PAGES))])
        for first, count in spans
    ]
    twin = Twin(piece, advises, ahead, frames, PAGES, PAGES)
    twin.run(requests)

    state = used(requests, piece, advises, ahead, frames)

    expected = {name: twin.counts[name] for name in COUNTS.names}
    expected["most_faults"] = max(twin.faults_of, default=0)
    assert {name: int(state.counts[0][name]) for name in COUNTS.names} == expected
    host = state.memory.hosts[0]
    assert int(host["reclaimed"]) == twin.host.work["reclaimed"]
    assert int(host["page_outs"]) == twin.host.work["page_outs"]
    by_faults = np.bincount(twin.faults_of, minlength=len(state.by_faults))
    assert state.by_faults.tolist() == by_faults.tolist()


@given(REQUESTS)
def test_notes_are_the_counts_after_some_requests(spans):
    requests = [(first, [*range(first, min(first + count, PAGES))]) for first, count in spans]

    state = used(requests, 1, False, 0, 6)

    notes = state.notes[: int(state.rules[0]["notes"])]
    assert notes["requests"].tolist() == [*range(1, len(requests) + 1)]
    for note in notes:
        shorter = used(requests[: int(note["requests"])], 1, False, 0, 6)
        assert shorter.counts[0].tolist() == note.tolist()
