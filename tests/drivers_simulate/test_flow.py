"""Transfers whose rate changes, against bytes counted one by one."""

from hypothesis import given
from hypothesis import strategies as st

from nicscope.drivers.simulate.flow import FLOW, begin, change_rate, end_of, moved_by, time_of
from nicscope.kernel.records import records

rates = st.integers(0, 9)  # ps per byte; 0: all at once


def byte_times(start, total, rate, changes):
    """When each byte has moved: a byte under way at a change starts anew at the new rate."""
    times, since = [], start
    changes = list(changes)
    while len(times) < total:
        end = since + rate
        if changes and changes[0][0] < end:
            at, rate = changes.pop(0)
            since = max(since, at)
            continue
        times.append(end)
        since = end
    return times


@given(
    start=st.integers(0, 20),
    total=st.integers(1, 30),
    rate=rates,
    steps=st.lists(st.tuples(st.integers(0, 30), rates), max_size=6),
)
def test_bytes_move_when_they_should(start, total, rate, steps):
    flow = records(1, FLOW)[0]
    begin(flow, 0, start, total, rate)
    now, changes, current = 0, [], rate
    for gap, new in steps:
        now += gap
        if now >= end_of(flow):
            break
        change_rate(flow, now, new)
        if new != current:
            changes.append((now, new))
            current = new
    expected = byte_times(start, total, rate, changes)

    assert end_of(flow) == expected[-1]
    for later in (now, now + 1, now + 7, expected[-1]):
        if later >= now:
            assert moved_by(flow, later) == sum(t <= later for t in expected)
    for byte in range(moved_by(flow, now) + 1, total + 1):
        assert time_of(flow, byte) == expected[byte - 1]


def test_the_same_rate_again_changes_nothing():
    flow = records(1, FLOW)[0]
    begin(flow, 0, 5, 10, 3)

    assert not change_rate(flow, 9, 3)
    assert end_of(flow) == 35
