"""Moments of a message that several things share: each is counted once, for what comes first."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.config.design import Way
from nicscope.drivers.simulate.observe import LOG, Engine, Task
from nicscope.drivers.simulate.records import ACCESSING, COPYING, POLLING, POSTING
from nicscope.studies.latency import Part, Prices, Sent, Span, parted, parts_of
from oracle.parts import parted as told

DMA = Prices(Way.CC_DMA_INTERVENTION, post=10, fetch_init=3, deliver_init=3, interrupt=2,
             own_table=False)  # fmt: skip
SPANS = st.lists(
    st.builds(
        Span,
        st.integers(1, 4),
        st.sampled_from(list(Part)),
        st.integers(-5, 60),
        st.integers(-5, 60),
    ),
    max_size=12,
)


@given(SPANS, st.integers(0, 30), st.integers(0, 40))
def test_each_moment_is_counted_as_the_twin_counts_it(spans, begun, length):
    found = parted(spans, begun, begun + length)

    assert found == told(spans, begun, begun + length)
    assert sum(found) == length


def record(node, engine, start, end, task=-1, **more):
    kept = np.zeros((), LOG)
    for name, value in {"node": node, "engine": engine, "task": task, **more}.items():
        kept[name] = value
    kept["start"], kept["end"] = start, end
    return kept


def logged(*records):
    return np.array(sorted(records, key=lambda one: int(one["end"])), LOG)


# A message from node 0 to node 1: written, posted, fetched, sent, brought in, reported, seen.
JOURNEY = (
    record(0, Engine.CPU, 0, 20, ACCESSING, bytes=8),
    record(0, Engine.CPU, 20, 28, ACCESSING, bytes=64),  # the descriptor
    record(0, Engine.CPU, 28, 40, POSTING),
    record(0, Engine.CPU, 40, 45, COPYING),
    record(0, Engine.CPU, 45, 50, ACCESSING),  # the doorbell
    record(0, Engine.FIRMWARE, 50, 60, Task.SERVE, lookup=4),
    record(0, Engine.HOST_TX, 60, 80, bytes=8),
    record(0, Engine.FIRMWARE, 70, 90, Task.NET_TX),
    record(0, Engine.NET_TX, 90, 100, control=1),
    record(0, Engine.NET_TX, 100, 130),
    record(0, Engine.FIRMWARE, 130, 150, Task.FINISH),
    record(1, Engine.FIRMWARE, 100, 110, Task.POST_PAYLOAD),
    record(1, Engine.FIRMWARE, 130, 140, Task.POST_CONTROL),
    record(1, Engine.HOST_RCV, 135, 160),
    record(1, Engine.FIRMWARE, 162, 170, Task.COMPLETE),
    record(1, Engine.REPORT, 170, 175),
    record(1, Engine.CPU, 175, 180, POLLING),
    record(1, Engine.CPU, 180, 184, ACCESSING),
    record(1, Engine.CPU, 184, 190, COPYING),
)
PARTED = {
    Part.USER_DATA: 20,
    Part.LIBRARY: 8 + 10 + 5 + 5 + 4,
    Part.PIN: 2,
    Part.COPY: 5 + 6,
    Part.SEND: 6 + 20,
    Part.TRANSLATION: 4,
    Part.DMA_INIT: 3 + 3,
    Part.DMA_EXEC: 7 + 20,
    Part.DMA_INTERRUPT: 2,
    Part.NETWORK: 10 + 20,
    Part.RECEIVE: 10 + 8 + 5,
    Part.WAIT: 5 + 2,
}


def test_a_message_by_hand():
    found = parts_of(logged(*JOURNEY), Sent(0, 1, 8, 0, 190, 190), DMA)

    assert {part: ps for part, ps in zip(Part, found, strict=True) if ps} == PARTED
    assert sum(found) == 190


@pytest.mark.parametrize(
    ("way", "fetching", "delivering"),
    [(Way.EDT, Part.BLOCK_WAIT, Part.COHERENCE), (Way.PIO, Part.WAIT, Part.WAIT)],
)
def test_what_an_engine_does_is_called_by_the_way(way, fetching, delivering):
    found = parts_of(logged(*JOURNEY), Sent(0, 1, 8, 0, 190, 190), DMA._replace(way=way))

    dma = sum(PARTED[part] for part in (Part.DMA_INIT, Part.DMA_EXEC, Part.DMA_INTERRUPT))
    assert found[fetching] >= 10
    assert found[fetching] + found[delivering] >= dma
    assert found[Part.DMA_INIT] == found[Part.DMA_EXEC] == found[Part.DMA_INTERRUPT] == 0


def test_what_others_do_before_and_after_is_not_counted():
    others = (
        record(0, Engine.CPU, -30, -10, POSTING),
        record(0, Engine.FIRMWARE, 5, 15, Task.SERVE),  # before the doorbell
        record(1, Engine.FIRMWARE, 30, 40, Task.COMPLETE),  # before the first frame
        record(0, Engine.CPU, 150, 160, POLLING),
    )

    assert parts_of(logged(*JOURNEY, *others), Sent(0, 1, 8, 0, 190, 190), DMA) == parts_of(
        logged(*JOURNEY), Sent(0, 1, 8, 0, 190, 190), DMA
    )


def test_what_the_receiver_loads_once_it_knows_is_read():
    late = (record(1, Engine.CPU, 190, 197, ACCESSING, bytes=8),)

    found = parts_of(logged(*JOURNEY, *late), Sent(0, 1, 8, 0, 190, 197), DMA)

    assert {part: ps for part, ps in zip(Part, found, strict=True) if ps} == {
        **PARTED,
        Part.USER_READ: 7,
    }


def test_a_fetched_descriptor_is_a_transfer_of_the_sender():
    moved = [one.copy() for one in JOURNEY]
    for one in moved:
        if int(one["end"]) > 50:
            one["start"] += 9
            one["end"] += 9
    moved.append(record(0, 9, 50, 59, packet=-1))

    found = parts_of(logged(*moved), Sent(0, 1, 8, 0, 199, 199), DMA)

    grown = {part: found[part] - PARTED.get(part, 0) for part in Part}
    assert {part: ps for part, ps in grown.items() if ps} == {
        Part.DMA_INIT: 3,
        Part.DMA_EXEC: 4,
        Part.DMA_INTERRUPT: 2,
    }
