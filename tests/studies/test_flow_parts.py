"""A latency's parts: the rule, instant by instant, and that they add up to the picosecond."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flow_samples import answered, asked
from nicscope.config.design import POLICIES
from nicscope.drivers.simulate.observe import LOG, MESSAGE, Engine, Task
from nicscope.studies.flow import report
from nicscope.studies.flow_parts import PART_NAMES, WAITS, Part, busy_parts, latency_parts

# From upstream to downstream; what is said of each in docs/flow.md.
DOWNSTREAM = [
    (Part.HOST_WRITE, Engine.HOST_WRITE, None),
    (Part.HOST_TX, Engine.HOST_TX, None),
    (Part.FIRMWARE_SEND, Engine.FIRMWARE, (Task.HOST_TX, Task.NET_TX)),
    (Part.NETWORK, Engine.NET_TX, None),
    (
        Part.FIRMWARE_RECEIVE,
        Engine.FIRMWARE,
        (Task.POST_PAYLOAD, Task.HOST_RCV, Task.COMPLETE),
    ),
    (Part.HOST_RCV, Engine.HOST_RCV, None),
    (Part.HOST_READ, Engine.HOST_READ, None),
]


def record(engine, start, end, *, packet=0, sender=0, task=-1, control=0, node=0, byte_count=0):
    return (packet, sender, node, engine, task, control, start, end, byte_count, 0)


def firmware(task, start, end, **others):
    return record(Engine.FIRMWARE, start, end, task=task, **others)


def log_of(*records):
    return np.array(list(records), LOG)


def messages_of(*spans):
    """Packets 0, 1, ... of sender 0, each posted and read then."""
    return np.array([(0, n, 1, 100, *span) for n, span in enumerate(spans)], MESSAGE)


def named(row):
    return {PART_NAMES[part]: int(row[part]) for part in Part if row[part]}


def test_each_instant_is_the_furthest_downstream_activitys():
    log = log_of(
        record(Engine.HOST_WRITE, 0, 3),
        firmware(Task.HOST_TX, 4, 6),
        record(Engine.HOST_TX, 6, 20),
        firmware(Task.NET_TX, 8, 10),
        record(Engine.NET_TX, 10, 30),
        record(Engine.NET_RCV, 1, 30),
        firmware(Task.HOST_RCV, 25, 28),
        record(Engine.HOST_RCV, 28, 40),
        firmware(Task.FINISH, 31, 60),
        firmware(Task.COMPLETE, 42, 44),
        record(Engine.HOST_READ, 47, 50),
    )

    [row] = latency_parts(log, messages_of((0, 50)))

    assert named(row) == {
        "host write": 3,
        "wait in the send ring": 1,
        "firmware, sending": 4,
        "hostTx": 2,
        "network": 15,
        "firmware, receiving": 5,
        "hostRcv": 12,
        "wait on the receiver's NIC": 2,
        "wait in the receive ring": 3,
        "host read": 3,
    }
    [busy] = busy_parts(log, messages_of((0, 50)))
    assert named(busy) == {
        "host write": 3,
        "firmware, sending": 4,
        "hostTx": 14,
        "network": 20,
        "firmware, receiving": 5,
        "hostRcv": 12,
        "host read": 3,
    }


def test_a_packet_waits_on_the_senders_nic_until_its_last_byte_has_left():
    log = log_of(
        firmware(Task.HOST_TX, 0, 1),
        record(Engine.NET_TX, 5, 6),
        record(Engine.NET_TX, 9, 10),
        firmware(Task.COMPLETE, 13, 14),
    )

    [row] = latency_parts(log, messages_of((0, 20)))

    assert {part: int(row[part]) for part in WAITS} == {
        Part.SEND_RING: 0,
        Part.SENDER_NIC: 4 + 3,
        Part.RECEIVER_NIC: 3,
        Part.RECEIVE_RING: 6,
    }


def test_other_packets_and_other_senders_leave_a_packet_alone():
    mine = log_of(record(Engine.HOST_TX, 2, 4))
    both = log_of(
        record(Engine.HOST_TX, 2, 4),
        record(Engine.HOST_RCV, 0, 9, packet=1),
        record(Engine.HOST_RCV, 0, 9, sender=3),
        firmware(Task.POST_CONTROL, 0, 9, packet=-1, sender=-1),
    )

    alone, among = (latency_parts(log, messages_of((0, 10))) for log in (mine, both))

    assert (alone == among).all()


def test_an_aborted_message_has_no_parts():
    log = log_of(record(Engine.HOST_WRITE, 0, 3), record(Engine.HOST_TX, 4, 9))

    parts = latency_parts(log, messages_of((0, -1)))

    assert not parts.any()


def test_no_messages_have_no_parts():
    assert latency_parts(log_of(), messages_of()).shape == (0, len(Part))


spans = st.tuples(st.integers(-3, 25), st.integers(0, 12)).map(lambda s: (s[0], s[0] + s[1]))
records = st.builds(
    lambda engine, task, span, packet: record(
        engine, *span, packet=packet, task=task if engine == Engine.FIRMWARE else -1
    ),
    st.sampled_from(Engine),
    st.sampled_from(Task),
    spans,
    st.integers(-1, 2),
)


def by_the_rule(log, message):
    """Parts of one message, found out picosecond by picosecond."""
    own = log[(log["packet"] == message["packet"]) & (log["sender"] == message["sender"])]
    is_task = {task: (own["engine"] == Engine.FIRMWARE) & (own["task"] == task) for task in Task}
    bounds = [
        own["start"][is_task[Task.HOST_TX]].max(initial=message["posted"]),
        own["end"][own["engine"] == Engine.NET_TX].max(initial=message["posted"]),
        own["end"][is_task[Task.COMPLETE]].max(initial=message["posted"]),
    ]
    row = [0] * len(Part)
    for instant in range(message["posted"], message["read"]):
        now = own[(own["start"] <= instant) & (instant < own["end"])]
        # A wait ends where the last of its own bound and all before it is.
        waits = [instant < max(bounds[: place + 1]) for place in range(3)]
        at = WAITS[waits.index(True)] if any(waits) else Part.RECEIVE_RING
        for part, engine, tasks in DOWNSTREAM:
            if any(one["engine"] == engine and (not tasks or one["task"] in tasks) for one in now):
                at = part
        row[at] += 1
    return row


@given(log=st.lists(records, max_size=14), lives=st.lists(spans, min_size=1, max_size=3))
def test_parts_agree_with_the_rule_instant_by_instant(log, lives):
    log, messages = log_of(*log), messages_of(*((max(a, 0), max(b, 0)) for a, b in lives))

    parts = latency_parts(log, messages)

    assert parts.tolist() == [by_the_rule(log, message) for message in messages]


@given(
    policy=st.sampled_from(sorted(POLICIES)),
    payload=st.sampled_from([0, 1, 127, 129, 1000, 8192]),
    count=st.integers(1, 6),
    gap=st.sampled_from(["0us", "130us"]),
    logging=st.booleans(),
    topology=st.sampled_from(["pair", "crossbar", "trunk"]),
    costs=st.lists(
        st.sampled_from(
            ["firmware_start=17ns", "link_per_byte=20ns/B", "link_watchdog=90us", "pio_read=91us"]
        ),
        unique=True,
        max_size=2,
    ),
)
def test_parts_of_simulated_packets_add_up_to_their_latencies(
    policy, payload, count, gap, logging, topology, costs
):
    found = report(
        asked(
            policy=policy,
            payload=str(payload),
            count=count,
            gap=gap,
            logging=logging,
            topology=topology,
            assignments=costs,
        )
    )

    messages = found.detailed
    whole = np.where(messages["read"] >= 0, messages["read"] - messages["posted"], 0)
    assert found.log_is_whole
    assert len(messages) == count
    assert found.parts.sum(axis=1).tolist() == whole.tolist()
    acting = [part for part in Part if part not in WAITS]
    assert (found.parts >= 0).all()
    assert (found.parts[:, acting] <= found.busy[:, acting]).all()


def test_a_lone_store_and_forward_packet_takes_the_sum_of_its_transfers():
    found = answered(policy="store-and-forward", count=1, topology="pair")

    parts = dict(zip(Part, found.parts[0].tolist(), strict=True))

    assert [parts[wait] for wait in WAITS] == [0, 0, 0, 0]
    assert parts[Part.HOST_WRITE] == 1_000_000 + 2_000_000
    # The CPU is through when hostTx begins, so nothing slows it.
    assert parts[Part.HOST_TX] == parts[Part.HOST_RCV] == 1_000_000 + 8192 * 7_800
    # The firmware takes the message and sends twice, the second time beneath the first's transfer.
    assert found.busy[0][Part.FIRMWARE_SEND] == 3 * 2_000_000
    assert parts[Part.HOST_READ] == 3_000_000
