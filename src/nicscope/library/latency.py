"""``nicscope latency``: user-to-user latency by component, for every way into the NIC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from nicscope.library.command import (
    Bytes,
    Option,
    Text,
    Values,
    byte_count,
    command,
    each_given,
    platform_option,
)
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from pathlib import Path

    from nicscope.config.platform import Platform
    from nicscope.library.command import One
    from nicscope.reports.latency import ShownLatencies


@command(
    "nicscope latency",
    "nicscope latency --mechanism edt,cc-dma-intervention --bytes 64..4096 --dma-rate 800",
    "nicscope latency --mechanism cc-dma-intervention,dma --translation utlb --entries 64 "
    "--pages 64 --delivery cut-through",
    "nicscope latency --mechanism edt --bytes 256 --set cache_supply=60ns --json",
    out="Folder for results.json, latency.parquet and a figure.",
)
def latency(
    repeat: list[str],
    /,
    mechanism: Annotated[
        Text,
        Option(
            "NAME,...",
            "edt (eager data transfer), cc-dma-intervention, cc-dma-retry (coherent DMA), "
            "cni (cacheable queues), dma (the library flushes caches), pio, pio-combined (write "
            "combining), pci (on a platform with an I/O bus).  All but the last two, as far as the "
            "other options allow.",
        ),
    ] = None,
    platform: Annotated[
        str | Path | Platform, platform_option("What things cost, by name or a .toml file.")
    ] = "sonic-via",
    *,
    sizes: Annotated[
        Text,
        Option(
            "LOW..HIGH",
            "Message sizes by powers of two, or a list such as 64,1500; from 1 to 65536.",
            ("--bytes",),
        ),
    ] = "64..4096",
    mtu: Annotated[
        Bytes, Option("BYTES", "Of a message in a frame; 1500.", read=byte_count)
    ] = None,
    dma_rate: Annotated[int | None, Option("MB/s", "Peak rate of the DMA engine; 1600.")] = None,
    translation: Annotated[
        Text,
        Option(
            "SCHEME",
            "A translation in place of a table on the NIC: static, utlb, utlb-shared, "
            "utlb-process, or a design of one of these.",
        ),
    ] = None,
    entries: Annotated[int | None, Option("N", "Of that cache; the design's.")] = None,
    pages: Annotated[
        int | None, Option("N", "Buffers used in turn, to miss in that cache; 1.")
    ] = None,
    delivery: Annotated[
        Text,
        Option(
            "POLICY",
            "message-store-and-forward (a message is whole on a NIC before it goes on), "
            "store-and-forward (a frame is) or cut-through.",
        ),
    ] = "message-store-and-forward",
    assignments: Annotated[
        Values,
        Option(
            "NAME=NUMBER",
            "Change a time (in ps, or such as 60ns), a size or a switch of the machine or of its "
            "messaging; docs/via.md lists them.  Again for another.",
            ("--set",),
            read=each_given,
            is_repeated=True,
        ),
    ] = None,
    **_settings: One,
) -> ShownLatencies:
    """Show what a message's latency is made of, by the way it goes between host and NIC."""
    from nicscope.studies.latency.report import ask

    question = ask(
        mechanisms=mechanism,
        sizes=sizes,
        platform=platform,
        mtu=mtu,
        dma_rate=dma_rate,
        overrides=assignments,
        translation=translation,
        entries=entries,
        pages=pages,
        delivery=delivery,
    )
    from nicscope.reports.latency import ShownLatencies

    with progress("measuring", "packets", always_say=True) as watch:
        from nicscope.studies.latency.report import measure

        return ShownLatencies(measure(question, repeat, watch))
