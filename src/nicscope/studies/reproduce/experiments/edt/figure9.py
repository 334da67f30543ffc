"""Figure 9: what a message of 256 bytes spends its latency on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.interfaces.via.journal import Part
from nicscope.studies.reproduce.edt_latencies import (
    EDT,
    INTERVENTION,
    MEASURED,
    RETRY,
    latency,
    rising,
)
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from nicscope.studies.reproduce.verdict import Item

BELOW_THE_MTU = (64, 128, 256, 512, 1024)
CONSTANT = (Part.DMA_INIT, Part.DMA_INTERRUPT, Part.SEND, Part.RECEIVE)


def run(item: Item) -> Outcome:
    """Take one latency of each mechanism apart."""
    outcome = Outcome()
    size = item.printed["message_bytes"]
    pies = {name: latency(name, size) for name in MEASURED}
    outcome.shape(
        "parts-add-up",
        all(sum(pie.parts_ps.values()) == pie.total_ps for pie in pies.values()),
        "; ".join(f"{name} {_shares(name, size)}" for name in MEASURED),
    )
    fixed = all(
        len({latency(name, one).cycles(part) for one in BELOW_THE_MTU}) == 1
        for name in (INTERVENTION, RETRY)
        for part in CONSTANT
    )
    growing = all(
        rising([latency(name, one).cycles(Part.DMA_EXEC) for one in BELOW_THE_MTU])
        for name in (INTERVENTION, RETRY)
    )
    constant = sum(pies[INTERVENTION].cycles(part) for part in CONSTANT)
    outcome.shape(
        "only-exec-grows",
        fixed and growing,
        f"64 to 1024 B with intervention: {constant:,.0f} cycles stay, DMA Exec goes from "
        f"{latency(INTERVENTION, 64).cycles(Part.DMA_EXEC):,.0f} to "
        f"{latency(INTERVENTION, 1024).cycles(Part.DMA_EXEC):,.0f}",
    )
    run_of = {name: pies[name].cycles(Part.DMA_EXEC) for name in MEASURED}
    outcome.shape(
        "exec-larger-with-retry",
        run_of[RETRY] > run_of[INTERVENTION],
        f"cycles: {run_of[RETRY]:,.0f} with retry, {run_of[INTERVENTION]:,.0f} with intervention",
    )
    engine = (Part.DMA_INIT, Part.DMA_EXEC, Part.DMA_INTERRUPT)
    outcome.shape(
        "edt-has-no-dma",
        pies[EDT].cycles(*engine) == 0,
        f"cycles of EDT in the DMA engine: {pies[EDT].cycles(*engine):.0f}",
    )
    return outcome


def _shares(name: str, size: int) -> str:
    """The slices, in percent, that are not empty."""
    pie = latency(name, size)
    slices = [
        f"{part.name.lower().replace('_', ' ')} {100 * pie.cycles(part) / pie.cycles():.0f} %"
        for part in Part
        if pie.cycles(part)
    ]
    return ", ".join(slices)
