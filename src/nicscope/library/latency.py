"""Latency by component, for every way into the NIC: what ``nicscope latency`` reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import StudyError, in_one_line
from nicscope.library.command import assignments as set_of
from nicscope.library.command import byte_count, command_line, whole, word
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from nicscope.config.platform import Platform
    from nicscope.library.command import One, Word
    from nicscope.reports.latency import ShownLatencies

MESSAGES = "message-store-and-forward"
PLATFORM = "sonic-via"
BYTES = "64..4096"


@in_one_line
def latency(
    mechanism: Word = None,
    platform: str | Path | Platform = PLATFORM,
    *,
    sizes: Word = BYTES,
    mtu: str | int | None = None,
    dma_rate: int | None = None,
    translation: str | None = None,
    entries: int | None = None,
    pages: int | None = None,
    delivery: str = MESSAGES,
    assignments: str | Iterable[str] | None = None,
    **settings: One,
) -> ShownLatencies:
    """What a message's latency is made of, by the way it goes between host and NIC.

    Args:
        mechanism: one or several, such as ``["edt", "dma"]``; None: all that make sense.
        platform: what things cost.
        sizes: bytes of messages, such as ``[64, 1500]`` or ``"64..4096"`` by powers of two.
        mtu: bytes of a message in a frame; None: 1500.
        dma_rate: peak rate of the DMA engine in MB/s; None: 1600.
        translation: a scheme or design in place of a table on the NIC.
        entries: of that translation's cache; None: the design's.
        pages: buffers used in turn, to miss in that cache; None: 1.
        delivery: message-store-and-forward, store-and-forward or cut-through.
        assignments: ``NAME=NUMBER``, one or several, of the machine: a time (ps or ``60ns``), a
            size, a switch.
        settings: the same by name, such as ``cache_supply="60ns"``.

    Errors: ``NicscopeError``, before anything is simulated if it can be.

    """
    from nicscope.studies.latency.report import ask

    if "bytes" in settings:  # as the command has it, and Python its own bytes
        raise StudyError("latency() has no bytes=; the sizes of messages are sizes=")
    overrides = set_of(assignments, settings)
    asked = word("sizes", sizes) or ""
    mtu, dma_rate = byte_count("mtu", mtu), whole("dma_rate", dma_rate)
    entries, pages = whole("entries", entries), whole("pages", pages)
    question = ask(
        mechanisms=word("mechanism", mechanism),
        sizes=asked,
        platform=platform,
        mtu=mtu,
        dma_rate=dma_rate,
        overrides=overrides,
        translation=translation,
        entries=entries,
        pages=pages,
        delivery=delivery,
    )
    options = {
        "--mechanism": ",".join(question.mechanisms),
        "--bytes": asked,
        "--mtu": mtu,
        "--dma-rate": dma_rate,
        "--translation": translation,
        "--entries": entries,
        "--pages": pages,
        "--delivery": delivery if delivery != MESSAGES else None,
        "--platform": platform,
        "--set": overrides,
    }
    from nicscope.reports.latency import ShownLatencies

    with progress("measuring", "packets", always_say=True) as watch:
        from nicscope.studies.latency.report import measure

        return ShownLatencies(measure(question, command_line(["latency"], options), watch))
