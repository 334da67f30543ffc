"""What must hold for every run: checks on rows of messages and on log records as dicts.

They lean on the log alone, so that they judge the twin and the driver alike.
"""

from collections import Counter, defaultdict
from itertools import pairwise

from oracle.delivery_records import (
    COMPLETE,
    CONTROL_BYTES,
    CPU_WORK,
    FINISH,
    FIRMWARE,
    FROM_HOST,
    HOST_RCV,
    HOST_READ,
    HOST_TX,
    HOST_WRITE,
    NET_RCV,
    NET_TX,
    POST_PAYLOAD,
    TABLE,
)

# What does one thing at a time: hostTx and hostRcv are one engine, and there is one CPU.
UNITS = {
    HOST_WRITE: "cpu",
    HOST_READ: "cpu",
    HOST_TX: "pci",
    HOST_RCV: "pci",
    CPU_WORK: "cpu",
    TABLE: "pci",
    NET_TX: "netTx",
    NET_RCV: "netRcv",
    FIRMWARE: "processor",
}


def check_all(scenario, messages, log):
    check_that_every_message_arrives_once_and_in_order(scenario, messages)
    check_that_no_engine_does_two_things_at_once(log)
    check_that_every_byte_is_moved_once(messages, log)
    check_that_no_sink_overtakes_its_source(scenario, log)
    check_that_buffers_and_rings_never_overflow(scenario, messages, log)


def check_that_every_message_arrives_once_and_in_order(scenario, messages):
    """Each as often as the runs say; of one sender to one destination the first posted first."""
    wanted = Counter()
    for sender, destination, payload, count, _ in scenario.runs:
        wanted[sender, destination, payload] += count
    assert Counter((m[0], m[2], m[3]) for m in messages) == wanted
    last = {}
    for sender, packet, destination, _, posted, read in messages:
        if read >= 0:
            before = last.get((sender, destination), (-1, -1, -1))
            assert before[0] < packet
            assert before[1] <= posted <= read
            assert before[2] <= read
            last[sender, destination] = (packet, posted, read)
    for sender in {m[0] for m in messages}:
        own = sorted(m[1] for m in messages if m[0] == sender)
        assert own == list(range(len(own)))


def check_that_no_engine_does_two_things_at_once(log):
    units = defaultdict(list)
    for record in log:
        assert record["start"] <= record["end"]
        units[record["node"], UNITS[record["engine"]]].append((record["start"], record["end"]))
    for spans in units.values():
        spans.sort()
        for (_, end), (start, _) in pairwise(spans):
            assert end <= start


def by_packet(log, engine, control):
    found = defaultdict(list)
    for record in sorted(log, key=lambda one: (one["start"], one["end"])):
        if record["engine"] == engine and record["control"] == control:
            found[record["sender"], record["packet"]].append(record)
    return found


def check_that_every_byte_is_moved_once(messages, log):
    moved = defaultdict(int)
    for record in log:
        if record["engine"] != FIRMWARE:
            key = record["sender"], record["packet"], record["engine"], record["control"]
            moved[key] += record["bytes"]
    for sender, packet, _, payload, _, read in messages:
        if read >= 0:
            for engine in (HOST_TX, NET_TX, NET_RCV, HOST_RCV):
                assert moved[sender, packet, engine, 0] == payload
            for engine in (NET_TX, NET_RCV):
                assert moved[sender, packet, engine, 1] == CONTROL_BYTES
        else:
            assert moved[sender, packet, HOST_RCV, 0] <= moved[sender, packet, NET_TX, 0] <= payload


def at_most(records, now, start, rate):
    """Bytes that transfers with this start and at best this rate can have moved by ``now``."""
    return sum(min(r["bytes"], max(0, (now - r["start"] - start) // rate)) for r in records)


def check_that_no_sink_overtakes_its_source(scenario, log):
    """A transfer takes bytes that its source can have moved when it begins, and no others."""
    for source, sink in ((HOST_TX, NET_TX), (NET_TX, HOST_RCV)):
        sources, sinks = by_packet(log, source, 0), by_packet(log, sink, 0)
        for key, records in sinks.items():
            cost = scenario.costs[key[0]]
            if source == HOST_TX:
                start = cost["pci_read_start"]
                rate = min(cost["pci_read_per_byte"], cost["pci_read_contended_per_byte"])
            else:
                start, rate = cost["link_start"], cost["link_per_byte"]
            taken = 0
            for record in records:
                taken += record["bytes"]
                assert taken <= at_most(sources[key], record["start"], start, rate)


def check_that_buffers_and_rings_never_overflow(scenario, messages, log):
    """Holds as changes of each store at each node; at one moment what leaves goes first."""
    payload_of = {(m[0], m[1]): m[3] for m in messages}
    read = {(m[0], m[1]) for m in messages if m[5] >= 0}
    buffered = {(r["sender"], r["packet"]) for r in log if r["task"] == POST_PAYLOAD and r["bytes"]}
    changes = defaultdict(list)
    for record in log:
        node, key = record["node"], (record["sender"], record["packet"])
        engine, task, end = record["engine"], record["task"], record["end"]
        payload = payload_of.get(key, 0) > 0
        if engine == FIRMWARE and task == FROM_HOST and payload:
            changes[node, "send_buffers"].append((end, 1, key))
        if engine == FIRMWARE and task == FINISH:
            changes[node, "send_ring"].append((end, -1, key))
            if payload:
                changes[node, "send_buffers"].append((end, -1, key))
        if engine == FIRMWARE and task == POST_PAYLOAD and record["bytes"]:
            changes[node, "receive_buffers"].append((end, 1, key))
        if engine == FIRMWARE and task == COMPLETE:
            if key in buffered:
                changes[node, "receive_buffers"].append((end, -1, key))
            if key not in read:
                changes[node, "receive_ring"].append((end, -1, key))
        if engine == HOST_WRITE:
            changes[node, "send_ring"].append((record["start"], 1, key))
        if engine == NET_RCV and record["control"]:
            changes[node, "receive_ring"].append((end, 1, key))
        if engine == HOST_READ:
            changes[node, "receive_ring"].append((end, -1, key))
    for (node, store), moments in changes.items():
        held = 0
        for _, change, _ in sorted(moments):
            held += change
            assert held <= getattr(scenario.delivery, store), (node, store)
        assert held == 0, (node, store)
