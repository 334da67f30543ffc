"""Table 3 of the UTLB paper, over any traces: pages and lookups of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.studies.reproduce.traced.measuring import Layout, Line, Study
from nicscope.studies.reproduce.traced.utlb_statements import state_table3

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nicscope.studies.reproduce.traced.measuring import Findings, Row
    from nicscope.studies.reproduce.verdict import Item

BY_PROCESS = "footprint_by_process_pages"
BY_NODE = "footprint_pages"
LOOKUPS = "communication_lookups"


def table3_rows(found: Findings) -> list[Row]:
    """One row: means over the nodes that communicate."""
    footprint = found.measured.footprint
    assert footprint is not None
    nodes = max(1, footprint.nodes)
    return [
        {
            BY_PROCESS: footprint.process_pages / nodes,
            BY_NODE: footprint.pages / nodes,
            LOOKUPS: footprint.lookups / nodes,
        }
    ]


def table3_printed(items: Mapping[str, Item]) -> list[Row]:
    """The paper's cells; whether a page that processes share counts once it does not say."""
    cells = items["table3"].printed
    columns = zip(cells["app"], cells["footprint_pages"], cells["lookups"], strict=True)
    return [
        {"application": app, BY_PROCESS: pages, LOOKUPS: lookups} for app, pages, lookups in columns
    ]


# Table 3: distinct pages that a node uses for communication, and lookups.
TABLE3 = Study(
    unit="pages and lookups of a node, on average",
    conditions="every page that a request touches is a lookup",
    layout=Layout(
        axes=(),
        columns=("",),
        lines=(
            Line("pages, by process", (BY_PROCESS,)),
            Line("pages, by node", (BY_NODE,)),
            Line("lookups", (LOOKUPS,)),
        ),
    ),
    rows=table3_rows,
    printed=table3_printed,
    printed_note="which of the two ways to count pages is meant is not said; held against the "
    "first, by which pages per lookup are Table 4's check misses for five of the seven",
    nodes=True,
    state=state_table3,
)
