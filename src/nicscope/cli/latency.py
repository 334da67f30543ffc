"""``nicscope latency``: user-to-user latency by component, for every way into the NIC."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotation
from typing import TYPE_CHECKING, Annotated

from nicscope.cli import arguments
from nicscope.cli.answer import answer
from nicscope.cli.arguments import AsJson, Explain, byte_count, option
from nicscope.library.latency import BYTES, MESSAGES, PLATFORM

if TYPE_CHECKING:
    from nicscope.reports.latency import ShownLatencies

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope latency[/bold]\n\n"
    "[bold]nicscope latency --mechanism edt,cc-dma-intervention --bytes 64..4096 "
    "--dma-rate 800[/bold]\n\n"
    "[bold]nicscope latency --mechanism cc-dma-intervention,dma --translation utlb --entries 64 "
    "--pages 64 --delivery cut-through[/bold]\n\n"
    "[bold]nicscope latency --mechanism edt --bytes 256 --set cache_supply=60ns --json[/bold]"
)


def latency(
    mechanism: Annotated[
        str | None,
        option(
            "NAME,...",
            "edt (eager data transfer), cc-dma-intervention, cc-dma-retry (coherent DMA), "
            "cni (cacheable queues), dma (the library flushes caches), pio, pio-combined (write "
            "combining), pci (on a platform with an I/O bus).  All but the last two, as far as the "
            "other options allow.",
        ),
    ] = None,
    byte_list: Annotated[
        str,
        option(
            "LOW..HIGH",
            "Message sizes by powers of two, or a list such as 64,1500; from 1 to 65536.",
            "--bytes",
        ),
    ] = BYTES,
    mtu: Annotated[
        int | None, option("BYTES", "Of a message in a frame; 1500.", parser=byte_count)
    ] = None,
    dma_rate: Annotated[int | None, option("MB/s", "Peak rate of the DMA engine; 1600.")] = None,
    translation: Annotated[
        str | None,
        option(
            "SCHEME",
            "A translation in place of a table on the NIC: static, utlb, utlb-shared, "
            "utlb-process, or a design of one of these.",
        ),
    ] = None,
    entries: Annotated[int | None, option("N", "Of that cache; the design's.")] = None,
    pages: Annotated[
        int | None, option("N", "Buffers used in turn, to miss in that cache; 1.")
    ] = None,
    delivery: Annotated[
        str,
        option(
            "POLICY",
            "message-store-and-forward (a message is whole on a NIC before it goes on), "
            "store-and-forward (a frame is) or cut-through.",
        ),
    ] = MESSAGES,
    platform: Annotated[
        str,
        option(
            "NAME",
            "What things cost, by name or a .toml file.",
            autocompletion=arguments.platforms,
        ),
    ] = PLATFORM,
    override: Annotated[
        list[str] | None,
        option(
            "NAME=NUMBER",
            "Change a time (in ps, or such as 60ns), a size or a switch of the machine or of its "
            "messaging; docs/via.md lists them.  Again for another.",
            "--set",
        ),
    ] = None,
    out: Annotated[
        Path | None, option("DIR", "Folder for results.json, latency.parquet and a figure.")
    ] = None,
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """Show what a message's latency is made of, by the way it goes between host and NIC."""
    from nicscope.library.latency import latency as measure

    def measured() -> ShownLatencies:
        return measure(
            mechanism,
            platform,
            sizes=byte_list,
            mtu=mtu,
            dma_rate=dma_rate,
            translation=translation,
            entries=entries,
            pages=pages,
            delivery=delivery,
            assignments=override,
        )

    answer(measured, out, as_json, explain)
