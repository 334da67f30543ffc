"""Network memory and TCP over Trapeze: what a page fault and a stream take, policy by policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nicscope.apps.kernel import NetworkMemory, Receiver, Sender, serve_pages
from nicscope.config.design import POLICIES
from nicscope.errors import StudyError, did_you_mean
from nicscope.interfaces import Faults
from nicscope.interfaces.run_report import on_run
from nicscope.interfaces.trapeze import Cluster, Endpoint, PagePool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from nicscope.config.platform import Platform

PAGE_SIZES = (4096, 8192)
BUFFER_BYTES = 1 << 20  # of the process that reads, and of the sockets (Trapeze, footnote 2)
SPARE = 8  # frames of a pool beside those that pages have
RING_BYTES = 1 << 20  # of a host's memory, beside its pages: the receive ring, and what is sent
SHORT_WORD = 8  # bytes: what the program writes to a page, and reads again
PERIOD = 251  # bytes after which a stream repeats itself: no page begins as another does


class Question(msgspec.Struct, frozen=True):
    """What both services are to do, over which machines."""

    platforms: tuple[str | Path | Platform, str | Path | Platform]  # of the client, of the server
    policies: tuple[str, ...]
    page_bytes: int
    pages: int
    frames: int
    accesses: int
    total_bytes: int
    offset: int
    protocol_us: float
    loss: float
    seed: int


class KernelRow(msgspec.Struct, frozen=True):
    """Both services under one policy."""

    delivery: str
    page_faults: int
    stall_us: float  # of a page fault, on average
    worst_stall_us: float
    pages_sent_back: int
    tcp_mbytes_s: float
    segments_mapped: int
    segments_copied: int
    segments_again: int


class KernelReport(msgspec.Struct, frozen=True):
    """What was asked, and a row for each policy."""

    question: Question
    repeat: list[str]
    rows: list[KernelRow]

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        asked = msgspec.structs.asdict(self.question)
        asked["platforms"] = [str(getattr(one, "name", one)) for one in self.question.platforms]
        rows = [msgspec.structs.asdict(row) for row in self.rows]
        return {"repeat": self.repeat, **asked, "rows": rows}


def chosen_policies(given: str) -> tuple[str, ...]:
    """The policies of a list such as ``adaptive,cut-through``, or all.  Errors: ``StudyError``."""
    names = list(POLICIES) if given == "all" else given.split(",")
    for name in names:
        if name not in POLICIES or POLICIES[name].by_message:
            raise StudyError(f"no policy {name!r} of Trapeze{did_you_mean(name, POLICIES)}")
    return tuple(names)


def check(question: Question) -> Question:
    """The question.  Errors: ``StudyError`` for sizes that do not go together."""
    if question.page_bytes not in PAGE_SIZES:
        raise StudyError(f"pages have 4096 or 8192 bytes, got {question.page_bytes}")
    if question.offset >= question.page_bytes:
        raise StudyError(
            f"the reader's buffer begins within a page of {question.page_bytes} bytes, "
            f"got {question.offset}"
        )
    if question.frames > question.pages:
        raise StudyError(
            f"{question.frames} frames are more than the {question.pages} pages that they hold: "
            "there would be no faults"
        )
    return question


def measure(
    question: Question, repeat: list[str], watch: Callable[[int, int], None] | None = None
) -> KernelReport:
    """Run both services under each policy; ``watch`` is told how many of how many runs are over.

    Errors: ``SimulationError`` of the cluster; an ``AssertionError`` if a byte is not right.
    """
    rows: list[KernelRow] = []
    for number, policy in enumerate(question.policies):
        with on_run(lambda _: None):
            memory = network_memory(question, policy)
            if watch is not None:
                watch(2 * number + 1, 2 * len(question.policies))
            stream = tcp(question, policy)
        if watch is not None:
            watch(2 * number + 2, 2 * len(question.policies))
        rows.append(KernelRow(delivery=policy, **memory, **stream))
    return KernelReport(question, repeat, rows)


def network_memory(question: Question, policy: str) -> dict[str, Any]:
    """A process that uses pages at random, half of the time to write; they are on another host."""
    size, pages = question.page_bytes, question.pages
    draw = np.random.default_rng(question.seed)
    uses = zip(
        draw.integers(0, pages, question.accesses).tolist(),
        draw.integers(0, 2, question.accesses).tolist(),
        strict=True,
    )
    written: dict[int, bytes] = {}

    async def client(endpoint: Endpoint) -> NetworkMemory:
        pool = PagePool(endpoint, question.frames + SPARE, size)
        memory = NetworkMemory(endpoint, pool, question.frames, servers=[1])
        for number, (page, is_write) in enumerate(uses, 1):
            frame = await memory.use(page, is_write=bool(is_write))
            if is_write:
                written[page] = number.to_bytes(SHORT_WORD, "little")
                await frame.write(written[page])
            held = frame.bytes[:SHORT_WORD].tobytes()
            assert held == written.get(page, bytes(SHORT_WORD)), f"page {page} is not as written"
        await memory.close()
        return memory

    async def server(endpoint: Endpoint) -> dict[int, bytes]:
        return await serve_pages(endpoint, PagePool(endpoint, pages + SPARE, size), clients=1)

    memory, kept = _run(question, policy, client, server, pages * size, Faults())
    for page, content in written.items():
        assert kept[page][:SHORT_WORD] == content, f"the server's page {page} is not as written"
    stalls = memory.stalls_us
    return {
        "page_faults": len(stalls),
        "stall_us": sum(stalls) / len(stalls),
        "worst_stall_us": max(stalls),
        "pages_sent_back": memory.sent_back,
    }


def tcp(question: Question, policy: str) -> dict[str, Any]:
    """A stream from the client's process to the server's, over a connection that there is."""
    size, total = question.page_bytes, question.total_bytes
    pattern = bytes(number * 7 % PERIOD for number in range(PERIOD))
    stream = pattern * (1 + (size + BUFFER_BYTES) // PERIOD)

    def content(first: int, end: int) -> bytes:
        at = first % PERIOD
        return stream[at : at + end - first]

    async def send(endpoint: Endpoint) -> tuple[float, int]:
        sender = Sender(endpoint, 1, size, BUFFER_BYTES)
        began = endpoint.now_us
        await sender.send(total, content, question.protocol_us)
        return began, sender.retransmitted

    async def receive(endpoint: Endpoint) -> tuple[float, int, int]:
        frames = BUFFER_BYTES // size + 1
        pool = PagePool(endpoint, frames + SPARE, size)
        receiver = Receiver(endpoint, pool, BUFFER_BYTES, question.offset)
        ended = await receiver.receive(total, content, question.protocol_us)
        return ended, receiver.reader.mapped, receiver.reader.copied

    faults = Faults(loss=question.loss, seed=question.seed)
    found = _run(question, policy, send, receive, BUFFER_BYTES, faults)
    (began, retransmitted), (ended, mapped, copied) = found
    return {
        "tcp_mbytes_s": total / (ended - began),
        "segments_mapped": mapped,
        "segments_copied": copied,
        "segments_again": retransmitted,
    }


def _run(
    question: Question,
    policy: str,
    client: Callable[[Endpoint], Any],
    server: Callable[[Endpoint], Any],
    page_bytes: int,
    faults: Faults,
) -> Sequence[Any]:
    """Run one program on either host; ``page_bytes``: of all pages of the host with most."""
    spare = 2 * SPARE * question.page_bytes
    cluster = Cluster(
        list(question.platforms),
        policy=policy,
        max_payload=question.page_bytes,
        host_bytes=page_bytes + spare + RING_BYTES,
        faults=faults,
    )
    cluster.start(0, client, tasks=3)
    cluster.start(1, server)
    return cluster.run()
