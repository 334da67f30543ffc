"""Contexts and work requests of a replay: the kernel against its twin, and against arithmetic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.drivers.replay.connections import ConnectionNode, Sizes
from nicscope.hashing import place_of
from nicscope.nic.context_cache import LRU, RANDOM
from oracle.replay_connections import ConnectionsOracle

SALT = 17  # of the draws


def draw(count, slots):
    return int(place_of(count, SALT, slots))


def counted(requests, sizes, batch=None):
    """Of (connection, is_posted), in batches of so many."""
    node = ConnectionNode(sizes)
    batch = batch or max(len(requests), 1)
    for begin in range(0, len(requests), batch):
        some = requests[begin : begin + batch]
        keys = np.array([[7, connection] for connection, _ in some], np.int64)
        node.feed(keys, np.array([posted for _, posted in some], np.uint8), 0)
    return node.counts()


REQUESTS = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=60)


@given(
    REQUESTS,
    st.integers(0, 6),
    st.integers(0, 9),
    st.integers(1, 5),
    st.sampled_from((LRU, RANDOM)),
    st.sampled_from((None, 1, 7)),
)
def test_the_kernel_counts_what_its_twin_does(
    requests, contexts, work_requests, outstanding, replacement, batch
):
    twin = ConnectionsOracle(
        contexts, work_requests, outstanding, draw if replacement == RANDOM else None
    )
    want = twin.replay(requests)
    got = counted(requests, Sizes(contexts, work_requests, outstanding, replacement), batch)
    assert got == {**dict.fromkeys(got, 0), **want}


@pytest.mark.parametrize("connections", [3, 4, 5, 8])
def test_contexts_miss_once_each_while_they_fit_and_always_in_turn_when_they_do_not(connections):
    requests = [(number % connections, True) for number in range(20 * connections)]
    found = counted(requests, Sizes(4, 1000, 1, LRU))
    assert found["context_lookups"] == 2 * len(requests)  # to execute, and for the answer
    # With one outstanding a connection's answer comes directly before its next request: one hit.
    fits = connections <= 4
    assert found["context_misses"] == (connections if fits else len(requests) + connections)


def test_work_requests_are_fetched_again_when_more_are_outstanding_than_the_nic_keeps():
    requests = [(number % 4, True) for number in range(400)]
    for kept, outstanding in ((16, 4), (8, 4), (64, 16), (63, 16)):
        found = counted(requests, Sizes(4, kept, outstanding, LRU))
        assert found["work_request_lookups"] == 2 * len(requests)
        if kept >= 4 * outstanding:
            assert found["work_request_misses"] == 0, (kept, outstanding)
        else:
            assert found["work_request_misses"] > 300, (kept, outstanding)


def test_what_comes_needs_a_context_once_and_no_work_request():
    found = counted([(0, False)] * 5, Sizes(1, 1, 4, LRU))
    assert found["context_lookups"] == 5
    assert found["context_misses"] == 1
    assert found["work_request_lookups"] == found["posted"] == 0


def test_there_may_be_more_connections_than_there_was_room_for():
    requests = [(number, True) for number in range(3000)] * 2
    found = counted(requests, Sizes(4000, 1 << 16, 4, LRU), batch=700)
    assert found["connections"] == 3000
    assert found["context_misses"] == 3000
    assert found["work_request_misses"] == 0
