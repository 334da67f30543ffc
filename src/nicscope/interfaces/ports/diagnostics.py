"""What the NIC and the kernel know of a waiting process, in words: why it gets no report.

All of it is read from counters and states that they keep anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.clock import NEVER
from nicscope.drivers.simulate.records import POST, PROVIDE, REPORT
from nicscope.nic.ports.layout import (
    BAD_TAG,
    BROKEN,
    BUFFER_POOL,
    CLOSED,
    CONNECTED,
    DONE,
    SENT,
    STATUS_NAMES,
    WORK_QUEUE,
)
from nicscope.nic.ports.streams import BLANK
from nicscope.nic.ports.traffic import ENDED_NAMES, REFUSED
from nicscope.nic.transport import LAST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.interfaces.ports.process import Process

PS_PER_US = 1_000_000
MOST_TAGS = 4  # that are named
# What became of packets that came, and is told: by name of ``ENDED_NAMES``.
TOLD_OF_PACKETS = {
    "lost": "lost by the network",
    "corrupted": "corrupted by the network",
    "refused": "refused for good",
}


def describe_state(process: Process) -> list[str]:
    """Describes its ports, its peers, and what came to its node."""
    machine, node = process._machine, process.node
    waits = machine.processes[process._sim_process.number]
    operation = int(waits["operation"])
    asked = int(waits["peer"]) if operation in (REPORT, POST, PROVIDE) else None
    ring = int(waits["own"]) & 1
    said: list[str] = []
    for port in process._mapped:
        record = machine.ports.table[node, port]
        of = "this endpoint" if port == asked or asked is None else f"its port {port}"
        said.extend(_describe_port(process, record, port, of))
        if port == asked and operation == REPORT:
            said.extend(_why_no_report(record, ring))
        elif port == asked:
            said.extend(_why_no_space(record, int(machine.ports.rules[0]["ring"]), operation))
    return [*said, *_describe_peers(process), *_describe_packets(process)]


def _describe_port(process: Process, record: Any, port: int, of: str) -> Iterator[str]:
    dropped, pending = int(record["dropped"]), 0
    if dropped:
        why = "no receive was posted" if record["takes"] == WORK_QUEUE else "no receive buffer"
        if process._ports.ended[process.node, ENDED_NAMES.index("no_report")]:
            why += ", or its receive queue was full of what is not read"
        again = ""
        if dropped > 1 and process._ports.rules[0]["reliable"]:
            again = ", or one again and again,"
        yield f"{count(dropped, 'message')}{again} for {of} {was(dropped)} dropped: {why}"
    if record["open"] == 0 and record["posted"]:
        yield f"{of} is closed"
    if record["takes"] == WORK_QUEUE and record["state"] == BROKEN:
        yield f"the connection of {of} is broken"
    pending = int(process._ports.pending[process.node, port]["busy"].sum())
    if pending:
        yield f"{count(pending, 'descriptor')} of {of} {has(pending)} not ended"
    unread = _unread(process, record, port)
    for status, number in unread.items():
        if status != STATUS_NAMES[BAD_TAG]:
            yield f"{count(number, 'send')} of {of} ended as {status!r}, unread"
    yield from _failed(process, record, port, of, unread)


def _unread(process: Process, record: Any, port: int) -> dict[str, int]:
    """Unread reports of failed sends, by status; successful ones are left out."""
    ring = process._ports.reports[process.node, port, SENT]
    found: dict[str, int] = {}
    for number in range(int(record["reaped"]), int(record["reported"])):
        status = STATUS_NAMES[int(ring[number % len(ring)]["status"])]
        if status != "done":
            found[status] = found.get(status, 0) + 1
    return found


def failed_sends(process: Process) -> list[str]:
    """Sends of ``process`` that have failed, as it would have learned by asking."""
    table = process._machine.ports.table
    return [
        said
        for port in process._mapped
        for said in _failed(process, table[process.node, port], port, f"its port {port}", {})
    ]


def unread_arrivals(process: Process) -> list[str]:
    """Arrivals at ``process`` that it has not received."""
    table = process._machine.ports.table[process.node]
    many = sum(int(table[port]["received"] - table[port]["read"]) for port in process._mapped)
    return [f"{count(many, 'message')} for it {was(many)} not received"] if many > 0 else []


def _failed(
    process: Process, record: Any, port: int, of: str, unread: dict[str, int]
) -> Iterator[str]:
    """Failed sends of which nobody was told, or whose status may not have been read."""
    if record["takes"] == WORK_QUEUE:
        return  # which raises what ends so
    told = process._ports.port_told[process.node, port].tolist()
    for end, number in enumerate(told):
        status = STATUS_NAMES[end]
        left = number - unread.get(status, 0)
        if end == BAD_TAG and number:
            yield _sends_to_unknown_tags(process, port, number)
        elif end not in (DONE, CLOSED) and left > 0:
            yield f"{count(left, 'send')} of {of} ended as {status!r}"
    refused = int(process._ports.port_sent[process.node, port, REFUSED])
    if refused and not process._ports.rules[0]["reliable"]:
        yield (
            f"{count(refused, 'packet')} of {of} {was(refused)} refused where "
            f"{'it' if refused == 1 else 'they'} came: nobody there has that tag any more"
        )


def _sends_to_unknown_tags(process: Process, port: int, number: int) -> str:
    """Number of sends to tags that nobody has, and those tags, as far as known."""
    ports, node = process._ports, process.node
    ring, pending = ports.reports[node, port, SENT], ports.pending[node, port]
    reported, names = int(ports.table[node, port]["reported"]), []
    for each in range(max(0, reported - len(ring)), reported):
        report = ring[each % len(ring)]
        if report["status"] != BAD_TAG:
            continue
        slots = (pending["cookie"] == report["cookie"]).nonzero()[0][:1].tolist()
        names += [int(ports.requests[node, port, slot]["name"]) for slot in slots]
    tags = [str(process.cluster.tag_of(node, name)) for name in dict.fromkeys(names) if name >= 0]
    shown = ", ".join(tags[:MOST_TAGS]) + (", ..." if len(tags) > MOST_TAGS else "")
    to = f"tag{'s' if len(tags) > 1 else ''} {shown}" if tags else "what is no tag"
    whose = "that tag" if len(tags) < 2 else "these tags"
    return f"{count(number, 'message')} to {to} {was(number)} dropped: nobody has {whose}"


def _why_no_report(record: Any, ring: int) -> Iterator[str]:
    """Why the awaited report may never be made."""
    if ring == SENT:
        if record["posted"] + record["refused"] == record["reaped"]:
            yield "nothing is posted there whose end could be reported"
        return
    if record["takes"] == WORK_QUEUE:
        if record["state"] not in (CONNECTED, BROKEN):
            yield "its VI is not connected"
    elif record["takes"] == BUFFER_POOL and record["free_posted"] and _is_empty(record):
        yield "its free queue is empty: provide() buffers"
    unread = int(record["reported"]) - int(record["reaped"])
    if unread:
        yield f"{count(unread, 'report')} of what it sent {has(unread)} not been read"


def _why_no_space(record: Any, ring: int, operation: int) -> Iterator[str]:
    """Why the port has no space for what the process posts."""
    unread = int(record["reported"]) - int(record["reaped"])
    if operation == POST and unread >= ring:
        yield f"its send queue of {ring} is full of ends that nobody has read: await them"
    if operation == PROVIDE and int(record["free_posted"]) - int(record["free_taken"]) >= ring:
        yield f"its free queue of {ring} is full: no message has needed one of its buffers"


def _is_empty(record: Any) -> bool:
    taken, ready = int(record["free_taken"]), int(record["ready_in"]) - int(record["ready_out"])
    return int(record["free_posted"]) == taken and ready == 0


def _describe_peers(process: Process) -> Iterator[str]:
    ports, node = process._ports, process.node
    deaths = ports.deaths.nodes.tolist()
    now = int(process._machine.tally[0]["now"])
    for peer, death in enumerate(deaths):
        if death < NEVER and death <= now and peer != node:
            yield f"node {peer} died at {death / PS_PER_US:g} us"
    own = ports.stream_of[node]
    reliable, window = bool(ports.rules[0]["reliable"]), int(ports.rules[0]["window"])
    for peer in (own > BLANK).nonzero()[0].tolist():
        stream = ports.pools.streams[own[peer]]
        if peer >= len(deaths):
            continue
        if stream["dead"]:
            yield f"node {peer} was given up: it acknowledged nothing"
        waiting = (int(stream["fresh"]) - int(stream["oldest"])) & LAST
        if reliable and waiting:
            closed = ": the window is closed" if waiting >= window else ""
            yield f"node {peer} has not acknowledged {count(waiting, 'packet')}{closed}"


def _describe_packets(process: Process) -> Iterator[str]:
    ended = dict(zip(ENDED_NAMES, process._ports.ended[process.node].tolist(), strict=True))
    for name, how in TOLD_OF_PACKETS.items():
        number = ended.get(name, 0)
        if number:
            yield f"{count(number, 'packet')} for node {process.node} {was(number)} {how}"


def count(number: int, one: str, many: str | None = None) -> str:
    """``number`` of them, in words."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def was(number: int) -> str:
    """Either "was" or "were", by number."""
    return "was" if number == 1 else "were"


def has(number: int) -> str:
    """Either "has" or "have", by number."""
    return "has" if number == 1 else "have"
