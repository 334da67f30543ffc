"""Two NICs over a channel that loses, doubles, reorders and corrupts.

The channel counts ticks.  A packet is judged DELAY ticks after it was sent and wholly in INSIDE
ticks later, so that several are between the two.
"""

import numpy as np
import pytest
from fresh_links import new_links

from nicscope.fabric.faults import (
    CORRUPTED,
    DUPLICATED,
    LOST,
    REORDERED,
    fate,
    flip,
    is_dead,
    new_deaths,
    new_faults,
)
from nicscope.kernel.decorators import copy_bytes, kernel
from nicscope.kernel.records import records
from nicscope.nic.crc import crc32
from nicscope.nic.transport import (
    DEAD,
    LAST,
    NONE,
    WANTED,
    ack_is_due,
    check_sequence,
    confirm,
    is_outstanding,
    may_acknowledge,
    next_to_send,
    note_sent,
    number_next,
    refuse,
    revive,
    take_ack,
    take_acknowledgement,
    time_out,
    window_open,
)
from suite import INTERPRETED

DELAY = 7
INSIDE = 5
HELD = 9  # ticks that an overtaken packet waits for another at most
ACK_AFTER = 3
PATIENCE = 40
BYTES = 16  # number, filling, CRC
SLOTS = 512
MESSAGES = 1_500 if INTERPRETED else 100_000

WIRE = np.dtype([("at", "i8"), ("sequence", "i8"), ("late", "i8")], align=True)
QUEUE = np.dtype([("head", "i8"), ("tail", "i8")], align=True)
RUN = np.dtype(
    [
        ("count", "i8"),
        ("window", "i8"),
        ("most_retries", "i8"),
        ("first", "i8"),
        ("spare", "i8"),  # 1: a second link takes over when the first has died
        ("most_ticks", "i8"),
        # results
        ("delivered", "i8"),
        ("wrong", "i8"),  # delivered out of order, twice or changed
        ("acknowledged", "i8"),
        ("dead_at", "i8"),  # -1: never
        ("ticks", "i8"),
    ],
    align=True,
)


@kernel
def fill(content, index):
    """The packet ``index``, which shows from its bytes which one it is."""
    for i in range(BYTES - 4):
        content[i] = (index >> (8 * (i % 4))) + 13 * i & 0xFF
    crc = crc32(content[: BYTES - 4], 0)
    for i in range(4):
        content[BYTES - 4 + i] = crc >> 8 * i & 0xFF


@kernel
def is_whole(content):
    crc = 0
    for i in range(4):
        crc |= np.int64(content[BYTES - 4 + i]) << 8 * i
    return crc32(content[: BYTES - 4], 0) == crc


@kernel
def push(queue, wire, contents, at, sequence, late, content):
    slot = queue[0].tail % SLOTS
    queue[0].tail += 1
    wire[slot].at = at
    wire[slot].sequence = sequence
    wire[slot].late = late
    copy_bytes(contents[slot], 0, content, 0, BYTES)


@kernel
def show(link, sequence, content, queue, inside, contents, now):
    """The header is here."""
    if check_sequence(link, sequence) == WANTED:
        push(queue, inside, contents, now + INSIDE, sequence, 0, content)


@kernel
def finish(link, sequence, content, run, scratch):
    """The packet is wholly in."""
    if not is_whole(content):
        refuse(link, sequence)
    elif may_acknowledge(link, sequence):
        confirm(link, sequence, 1)
        fill(scratch, run.delivered)
        for i in range(BYTES):
            if content[i] != scratch[i]:
                run.wrong += 1
                break
        run.delivered += 1


@kernel
def converse(runs, links, faults, deaths, copies, queues, wires, contents, acks, scratch):
    """Send ``runs[0].count`` packets from node 0 to node 1; until all are acknowledged."""
    run, mine, theirs, fault = runs[0], links[0, 1], links[1, 0], faults[0]
    air, within = queues[0:1], queues[1:2]
    route = 0
    ack_count = 0
    kept = 0  # an overtaken packet waits in scratch[1]
    kept_sequence = 0
    kept_until = 0
    given = 0
    now = 0
    while now < run.most_ticks and run.acknowledged < run.count:
        # the sender
        if given < run.count and window_open(mine, run.window):
            number_next(mine)
            given += 1
        sequence = next_to_send(mine)
        if sequence != NONE:
            if not is_outstanding(mine):
                mine.retransmit_at = now + PATIENCE
            note_sent(mine, sequence)
            index = (sequence - run.first) & LAST
            happens = fate(fault, 0, index, copies[index])
            if not (happens & LOST or is_dead(deaths.links, route, now)):
                fill(scratch[0], index)
                if happens & CORRUPTED:
                    flip(scratch[0], fault, 0, index, copies[index])
                late = 1 if happens & REORDERED else 0
                for _ in range(2 if happens & DUPLICATED else 1):
                    push(air, wires[0], contents[0], now + DELAY, sequence, late, scratch[0])
            copies[index] += 1
        ack = acks[now % acks.size]
        acks[now % acks.size] = NONE
        if ack != NONE:
            progress = take_acknowledgement(mine, ack)
            run.acknowledged += progress
            if progress > 0:
                mine.retransmit_at = now + PATIENCE
        if is_outstanding(mine) and now >= mine.retransmit_at:
            mine.retransmit_at = now + PATIENCE
            if time_out(mine, run.most_retries) == DEAD:
                if run.spare == 0 or route == 1:
                    run.dead_at = now
                    break
                route = 1
                revive(mine)
        # the receiver
        alive = not is_dead(deaths.nodes, 1, now)
        while air[0].head < air[0].tail and wires[0, air[0].head % SLOTS].at <= now:
            slot = air[0].head % SLOTS
            air[0].head += 1
            packet = wires[0, slot]
            if not alive:
                continue
            if packet.late == 1 and kept == 0:
                kept = 1
                kept_sequence = packet.sequence
                kept_until = now + HELD
                copy_bytes(scratch[1], 0, contents[0, slot], 0, BYTES)
                continue
            show(theirs, packet.sequence, contents[0, slot], within, wires[1], contents[1], now)
            if kept == 1:
                kept_until = now
            if kept == 1 and kept_until <= now:
                kept = 0
                show(theirs, kept_sequence, scratch[1], within, wires[1], contents[1], now)
        if kept == 1 and kept_until <= now and alive:
            kept = 0
            show(theirs, kept_sequence, scratch[1], within, wires[1], contents[1], now)
        while within[0].head < within[0].tail and wires[1, within[0].head % SLOTS].at <= now:
            slot = within[0].head % SLOTS
            within[0].head += 1
            if alive:
                finish(theirs, wires[1, slot].sequence, contents[1, slot], run, scratch[2])
        if ack_is_due(theirs) and alive and now >= theirs.ack_at:
            theirs.ack_at = now + ACK_AFTER
            ack = take_ack(theirs)
            happens = fate(fault, 1, ack_count, 0)
            ack_count += 1
            if not happens & (LOST | CORRUPTED) and not is_dead(deaths.links, route, now):
                after = DELAY + (4 if happens & REORDERED else 0)
                acks[(now + after) % acks.size] = ack
                if happens & DUPLICATED:
                    acks[(now + after + 6) % acks.size] = ack
        now += 1
    run.ticks = now


def conversation(
    faults, *, count=MESSAGES, window=16, most_retries=60, first=0, deaths=None, spare=0
):
    """The run's record and the two ends, when it is over."""
    runs = records(1, RUN)
    runs["count"], runs["window"], runs["most_retries"] = count, window, most_retries
    runs["first"], runs["spare"], runs["dead_at"] = first, spare, -1
    runs["most_ticks"] = 1_000 * count
    links = new_links(2, first)
    converse(
        runs,
        links,
        faults,
        new_deaths(2, 2) if deaths is None else deaths,
        np.zeros(count, np.int64),
        records(2, QUEUE),
        records((2, SLOTS), WIRE),
        np.zeros((2, SLOTS, BYTES), np.uint8),
        np.full(32, NONE, np.int64),
        np.zeros((3, BYTES), np.uint8),
    )
    return runs[0], links[0, 1], links[1, 0]


def assert_all_arrived(run):
    assert (run["delivered"], run["wrong"], run["acknowledged"]) == (run["count"], 0, run["count"])
    assert run["dead_at"] == -1


@pytest.mark.requirement("SH-5", "MI-6")
@pytest.mark.parametrize("first", [0, (LAST - MESSAGES // 2) & LAST], ids=["from 0", "wrapping"])
def test_what_is_lost_doubled_reordered_and_corrupted_arrives_once_in_order(first):
    run, sender, receiver = conversation(new_faults(1, 0.01, 0.01, 0.01, 0.01), first=first)

    assert_all_arrived(run)
    assert sender["sent"] == run["count"]
    assert sender["resent"] > run["count"] // 100
    assert receiver["refused"] > run["count"] // 200
    assert receiver["duplicates"] > run["count"] // 200
    assert receiver["gaps"] > run["count"] // 100
    assert sender["numbered"] == (first + run["count"]) & LAST


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("window", [1, 3, 64])
def test_a_channel_that_is_mostly_broken_only_takes_longer(seed, window):
    faults = new_faults(seed, 0.25, 0.3, 0.3, 0.25)
    run, _, receiver = conversation(faults, count=MESSAGES // 50, window=window)

    assert_all_arrived(run)
    assert receiver["confirmed"] == run["count"]


def test_a_faultless_channel_sends_everything_once():
    run, sender, receiver = conversation(new_faults(1), count=MESSAGES // 10, window=64)

    assert_all_arrived(run)
    assert (sender["resent"], sender["time_outs"]) == (0, 0)
    assert (receiver["duplicates"], receiver["gaps"], receiver["refused"]) == (0, 0, 0)


@pytest.mark.requirement("SH-5")
@pytest.mark.parametrize("most_retries", [0, 3])
def test_a_peer_that_dies_is_given_up_in_bounded_time(most_retries):
    died = 300
    deaths = new_deaths(2, 2, of_nodes={1: died})
    run, sender, _ = conversation(new_faults(1), most_retries=most_retries, deaths=deaths)

    # Acknowledgements that left in time still count, and each may set the deadline anew.
    bound = died + DELAY + (most_retries + 1) * PATIENCE
    assert died < run["dead_at"] <= bound
    assert sender["time_outs"] == most_retries + 1
    assert run["acknowledged"] <= run["delivered"] < run["count"]
    assert run["wrong"] == 0


@pytest.mark.parametrize("seed", range(3))
def test_another_link_takes_over_and_nothing_is_lost_or_comes_twice(seed):
    faults = new_faults(seed, 0.01, 0.01, 0.01, 0.01)
    deaths = new_deaths(2, 2, {0: 100 + seed})
    run, sender, _ = conversation(
        faults, count=MESSAGES // 10, most_retries=4, deaths=deaths, spare=1
    )

    assert_all_arrived(run)
    assert sender["time_outs"] >= 5


def test_the_same_seed_gives_the_same_conversation():
    faults = new_faults(9, 0.05, 0.05, 0.05, 0.05)
    first, second = (conversation(faults, count=500) for _ in range(2))

    assert [part.tobytes() for part in first] == [part.tobytes() for part in second]
    assert first[0]["delivered"] == 500
