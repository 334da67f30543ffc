"""Threads posting to one NIC against a plain list of everything that may happen next."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nicscope.drivers.simulate.connections import COSTS, Doorbells, new_traffic, run_traffic
from nicscope.hashing import place_of
from nicscope.nic.context_cache import LRU, RANDOM
from oracle.connections import Nic

PLAIN = {
    "post_ps": 100,
    "doorbell_ps": 40,
    "moved_ps": 160,
    "waiter_ps": 130,
    "waiters": 3,
    "completion_ps": 20,
    "fetch_ps": 5,
    "context_ps": 21,
    "fetch_latency_ps": 400,
    "execute_ps": 9,
    "answer_ps": 1_400,
    "window": 1 << 40,
}


def draw(count, slots):
    return int(place_of(count, 17, slots))


def both(
    costs,
    threads,
    pairs,
    outstanding,
    registers,
    contexts,
    requests,
    replacement,
    ends,
    budget=None,
):
    traffic = new_traffic(
        costs,
        threads,
        pairs,
        outstanding,
        None if registers is None else Doorbells(*registers),
        contexts,
        requests,
        replacement,
        budget,
    )
    run_traffic(traffic, ends)
    twin = Nic(
        costs,
        threads,
        pairs,
        outstanding,
        registers,
        contexts,
        requests,
        draw if replacement == RANDOM else None,
        budget,
    )
    twin.run(ends)
    return traffic.counts[0], twin


COST = st.integers(0, 60)
WORLDS = st.tuples(
    st.fixed_dictionaries(
        {
            **dict.fromkeys(COSTS.names, COST),
            "post_ps": st.integers(1, 60),
            "waiters": st.integers(0, 4),
            "window": st.integers(1, 4),
            "answer_ps": st.integers(0, 400),
        }
    ),
    st.integers(1, 6),
    st.integers(1, 9),
    st.integers(1, 5),
    st.sampled_from((None, (0, 1), (1, 2), (2, 3), (4, 12))),
    st.integers(0, 5),
    st.integers(0, 8),
    st.sampled_from((LRU, RANDOM)),
    st.integers(1, 60),
    st.none() | st.integers(1, 12),
)


@given(WORLDS)
@example((PLAIN, 5, 3, 4, (1, 2), 2, 6, RANDOM, 60, 7))
@example(({**PLAIN, "window": 1}, 3, 1, 4, None, 1, 5, LRU, 40, None))
def test_it_counts_and_times_what_a_plain_list_does(world):
    counts, twin = both(*world)

    assert counts["now_ps"] == twin.now
    assert {name: counts[name] for name in twin.counts} == twin.counts


def test_an_operation_alone_takes_the_sum_of_its_parts():
    traffic = new_traffic(PLAIN, 1, 1, 1, None, 1, 1, LRU)

    run_traffic(traffic, 2)

    # The second finds the queue pair's context, and its lock where it was left.
    first = 100 + 40 + 160 + 5 + 400 + 9 + 21 + 1_400
    assert traffic.counts[0].now_ps == first + 20 + 100 + 40 + 5 + 400 + 9 + 1_400
    assert traffic.counts[0].context_misses == 1


def test_a_cache_of_fewer_requests_than_are_outstanding_loses_some():
    def lost(slots, replacement):
        costs = {**PLAIN, "execute_ps": 200, "moved_ps": 0, "waiter_ps": 0}
        traffic = new_traffic(costs, 8, 8, 8, None, 8, slots, replacement)
        run_traffic(traffic, 3_200)
        return int(traffic.counts[0].work_request_misses)

    assert lost(64, LRU) == lost(64, RANDOM) == 0
    assert lost(32, RANDOM) > 800
    assert lost(16, RANDOM) > lost(32, RANDOM)
    assert lost(8, LRU) >= 3_000  # the oldest goes, which is the next that is needed


@pytest.mark.parametrize("window", [1, 2, 16])
def test_a_window_of_reads_bounds_a_queue_pair_by_its_round_trip(window):
    costs = {**PLAIN, "window": window, "post_ps": 1, "doorbell_ps": 1, "completion_ps": 0}
    costs |= {"moved_ps": 0, "answer_ps": 100_000}
    traffic = new_traffic(costs, 1, 1, 64, None, 1, 64, LRU)

    run_traffic(traffic, 640)

    rounds = 640 / window
    assert traffic.counts[0].now_ps == pytest.approx(rounds * 100_000, rel=0.02)


def test_a_budget_bounds_what_all_threads_have_outstanding_together():
    def under(budget):
        return new_traffic(PLAIN, 6, 12, 8, None, 12, 48, LRU, budget)

    def outstanding(budget):
        traffic = under(budget)
        most = 0
        for ends in range(1, 200):
            run_traffic(traffic, ends)
            # Each is posted, fetched, or on its way.
            rings = (traffic.posts, traffic.fetched, traffic.answers)
            most = max(most, sum(int(ring.state[1]) for ring in rings))
        return most

    assert outstanding(48) > 20
    assert outstanding(20) <= 20
    alone = under(1)
    run_traffic(alone, 100)
    assert alone.counts[0].now_ps > 100 * (40 + 5 + 400 + 9 + 1_400)  # one after the other
