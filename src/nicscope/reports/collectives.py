"""How long collectives take, on a terminal and as a table."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from nicscope.reports.printing import heading, remark, rows_of
from nicscope.reports.result import Report, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from nicscope.reports.printing import Printed, Rows
    from nicscope.studies.collectives import CollectiveReport, CollectiveRow

TABLE = {
    "interface": "string",
    "collective": "string",
    "algorithm": "string",
    "bytes": "int64",
    "type": "string",
    "first_us": "double",
    "later_us": "double",
    "bound_us": "double",
    "algorithm_mbytes_s": "double",
    "bus_mbytes_s": "double",
    "contended_us": "double",
    "misses_first": "int64",
    "misses_later": "double",
    "pins_first": "int64",
    "pins_later": "double",
    "again": "int64",
}


class ShownCollectives(Report):
    """Times of collectives beside a lower bound; collectives.parquet."""

    found: CollectiveReport
    topic = "collectives"

    def summary(self) -> list[str]:
        """That results are right, and what is fastest."""
        found = self.found
        told = [f"All results are right, with {found.nodes} processes on as many nodes."]
        several = {one.interface for one in found.rows}
        for name in dict.fromkeys(one.collective for one in found.rows):
            rows = [one for one in found.rows if one.collective == name and one.bytes is None]
            if len(several) > 1 and rows:
                best = min(rows, key=lambda one: one.later_us)
                told.append(
                    f"A {name} takes least on {best.interface}: {best.later_us:,.1f} us "
                    f"({best.algorithm})."
                )
        return told

    def parts(self) -> Iterator[Printed]:
        """A table of each collective, and what the bound is made of."""
        found = self.found
        yield heading(
            f"{found.nodes} nodes, a first call and {found.repeat} later, in us of virtual time; "
            f"seed {found.seed}"
        )
        for name, group in groupby(found.rows, key=lambda one: one.collective):
            yield collective_rows(name, list(group))
        yield ""
        for name, machine in found.machines.items():
            yield remark(
                f"bound on {name}: alpha {machine.alpha_us:.1f} us, beta "
                f"{machine.beta_us * 1000:.2f} ns a byte, measured between two of its nodes; the "
                "rest is arithmetic (identity)."
            )

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each collective, algorithm, interface and size."""
        yield (
            "collectives",
            table_of(self.found.rows, {name: (kind, name) for name, kind in TABLE.items()}),
        )


def collective_rows(name: str, rows: list[CollectiveRow]) -> Rows:
    """A row for each interface, algorithm and size."""
    columns = {"interface": lambda one: one.interface, "algorithm": lambda one: one.algorithm}
    if rows[0].bytes is not None:
        columns |= {
            "bytes": lambda one: f"{one.bytes:,}",
            "type": lambda one: one.type or "",
        }
    columns |= {
        "first": lambda one: f"{one.first_us:,.1f}",
        "later": lambda one: f"{one.later_us:,.1f}",
        "bound": lambda one: f"{one.bound_us:,.1f}",
    }
    if rows[0].bytes is not None:
        columns |= {
            "algorithm MB/s": lambda one: _amount(one.algorithm_mbytes_s),
            "bus MB/s": lambda one: _amount(one.bus_mbytes_s),
        }
    if rows[0].contended_us is not None:
        columns["contended"] = lambda one: _amount(one.contended_us)
    columns |= {
        "first misses": lambda one: _amount(one.misses_first),
        "later misses": lambda one: _amount(one.misses_later),
        "first pins": lambda one: _amount(one.pins_first),
        "later pins": lambda one: _amount(one.pins_later),
    }
    if any(one.again for one in rows):
        columns["again"] = lambda one: f"{one.again:,}"
    return rows_of(
        name,
        rows,
        columns,
        words=("interface", "algorithm", "type"),
        key=3 if rows[0].bytes is not None else 2,
        prose=(),
        least=("type", "later pins", "first pins", "later misses", "first misses"),
        grouped=True,
    )


def _amount(value: float | None) -> str:
    """A number; nothing for what there is not."""
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
