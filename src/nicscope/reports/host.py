"""Costs of memory on this machine: summary, tables, registration.toml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.reports.printing import Note, heading
from nicscope.reports.result import Column, Report, table_of
from nicscope.reports.table import Rows, rows_of
from nicscope.reports.wording import between, significant, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.config.costs import Span
    from nicscope.reports.printing import Printed
    from nicscope.studies.host_costs import HostReport, Measured

FILE = "registration.toml"
_REFUSED = {
    "huge": "huge pages on advice",
    "reserved": "reserved huge pages",
    "pinning": "pinning",
    "huge_pinning": "pinning huge pages",
    "mapping": "mapping",
    "copying": "copying",
}


class ShownHost(Report):
    """Measurements of this machine, and the registration costs derived from them."""

    found: HostReport
    topic = "host"

    def summary(self) -> list[str]:
        """What a page takes, what huge pages save, what was not allowed."""
        found = self.found.measured
        touch = found["touch"]
        told = [f"The first touch of a page takes {significant(touch.median)} us here"]
        if pin := found.get("pin"):
            told[0] += f", pinning one {significant(pin.median)} us"
        told[0] += "."
        if huge := found.get("touch huge"):
            told.append(f"That of a huge page takes {significant(huge.median)} us.")
        for name, why in self.found.refused.items():
            told.append(f"Not measured: {_REFUSED[name]}, as {why}.")
        return told

    def parts(self) -> Iterator[Printed]:
        """Tables: what was measured, and the costs for ``register``."""
        machine = self.found.machine
        yield heading(f"{machine['processor']}, {machine['kernel']}")
        yield measurement_rows(self.found)
        yield cost_rows(self.found)
        yield Note(
            f"Costs as a file: {FILE} in the folder of --out; then nicscope register 1TiB "
            f"--costs DIR/{FILE}."
        )

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each measurement."""
        columns: dict[str, Column] = {
            "measurement": ("string", "name"),
            "of_bytes": ("int64", "each_bytes"),
            "us_low": ("float64", "span.low"),
            "us_median": ("float64", "median"),
            "us_high": ("float64", "span.high"),
            "rounds": ("int64", "rounds"),
        }
        yield "host", table_of(self.found.measured.values(), columns)

    def files(self) -> Iterator[tuple[str, Any]]:
        """Beside the table, the costs as ``register`` reads them."""
        from nicscope.config.costs import registration_file

        yield from super().files()
        yield FILE, registration_file(self.found.costs)


def measurement_rows(found: HostReport) -> Rows:
    """A row for each measurement."""
    from nicscope.studies.host_costs import MEANINGS

    def per_gib(one: Measured) -> str:
        if not one.each_bytes:
            return ""
        return significant(one.median / one.each_bytes * (1 << 30) / 1000)

    return rows_of(
        "Microseconds",
        found.measured.values(),
        {
            "what": lambda one: one.name,
            "of": lambda one: MEANINGS[one.name],
            "from": lambda one: significant(one.span.low),
            "median": lambda one: significant(one.median),
            "to": lambda one: significant(one.span.high),
            "ms per GiB": per_gib,
            "rounds": lambda one: whole(one.rounds),
        },
        words=("what", "of"),
        least=("rounds", "of", "ms per GiB"),
    )


def cost_rows(found: HostReport) -> Rows:
    """A row for each cost of registration."""
    from nicscope.config.costs import REGISTRATION_COSTS

    def spelt(name: str, span: Span) -> str:
        factor = float(next(iter(REGISTRATION_COSTS[name][1].values())))
        return between(span.low / factor, span.high / factor)

    return rows_of(
        "Costs of registration",
        found.costs.costs.items(),
        {
            "cost": lambda one: one[0],
            "of": lambda one: REGISTRATION_COSTS[one[0]][0],
            "value": lambda one: spelt(*one),
            "unit": lambda one: next(iter(REGISTRATION_COSTS[one[0]][1])),
            "evidence": lambda one: found.costs.origins[one[0]].evidence.value,
        },
        words=("cost", "of", "unit", "evidence"),
        least=("of",),
    )
