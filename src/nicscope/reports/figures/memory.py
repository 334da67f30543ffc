"""Memory on the NIC beside the host memory that had to be pinned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.reports.figures.style import beside, legend, new_figure, styled
from nicscope.reports.palette import MEMORY_COLOURS
from nicscope.reports.wording import byte_size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nicscope.studies.replaying import Comparison

THICK = 0.36


def draw_memory(comparison: Comparison) -> Figure:
    """Two bars per design on a logarithmic scale of bytes."""
    sizes = {
        "NIC memory": [priced.nic_bytes for priced in comparison.priced],
        "pinned host memory": [priced.pinned_host_bytes for priced in comparison.priced],
    }
    largest = max(max(column) for column in sizes.values())
    smallest = min((size for column in sizes.values() for size in column if size), default=1)
    with styled():
        figure, (axes,) = new_figure(comparison, "Memory on the NIC, and pinned in the host")
        axes.set_xscale("log", base=2)
        floor = 2.0 ** (smallest.bit_length() - 2)
        axes.set_xlim(floor, 4.0 * max(largest, 1))
        for place, (name, column) in enumerate(sizes.items()):
            rows = [row + (place - 0.5) * THICK for row in range(len(column))]
            axes.barh(rows, column, THICK, color=MEMORY_COLOURS[name], label=name)
            for row, size in zip(rows, column, strict=True):
                beside(axes, (max(size, floor), row), byte_size(size))
        exponents = range(0, 60, 4)
        ticks = [2**exponent for exponent in exponents if floor <= 2**exponent <= 4 * largest]
        axes.set_xticks(ticks, [byte_size(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("bytes, logarithmic (NIC: the node that takes most; host: peak, all nodes)")
        legend(figure, axes, columns=2)
    return figure
