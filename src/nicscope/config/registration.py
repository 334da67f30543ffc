"""What registering memory costs on today's machines: numbers or ranges, each with its evidence."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING

from nicscope.config.ranged_costs import RangedCosts, Span, load_ranged_costs
from nicscope.config.shelf import shelf_names
from nicscope.telling import ToldPlainly

if TYPE_CHECKING:
    from pathlib import Path

    from nicscope.config.ranged_costs import Known

__all__ = [
    "COSTS",
    "RegistrationCosts",
    "Span",
    "load_registration_costs",
    "registration_file",
    "registration_names",
]

# What one of it is of, and the units that it may be stated in, each as microseconds.
COSTS: Known = {
    "region": ("a region, whatever its size", {"us": Decimal(1), "ms": Decimal(1000)}),
    "fault": ("a page of the host that nobody has touched", {"us": Decimal(1)}),
    "zero": ("the zeroing of such pages", {"ms/GiB": Decimal(1000)}),
    "pin": ("a page of the host, pinned and mapped for devices", {"us": Decimal(1)}),
    "entry": ("an entry of a NIC's table", {"us": Decimal(1)}),
    "deregister_entry": ("an entry that is revoked", {"us": Decimal(1)}),
    "backlog": ("memory that is registered already at the NIC", {"ms/GiB": Decimal(1000)}),
    "lookup": ("a lookup in a library's registration cache", {"us": Decimal(1)}),
}
RegistrationCosts = RangedCosts


def registration_names() -> list[str]:
    """Names of the catalog's, sorted."""
    return shelf_names("registrations")


@ToldPlainly()
def load_registration_costs(name_or_path: str | Path) -> RegistrationCosts:
    """Costs of that name in the catalog, or those of a ``.toml`` file.

    Errors: ``PlatformError`` naming the file and the key that is wrong.
    """
    return load_ranged_costs("registrations", COSTS, name_or_path, limited=True)


def registration_file(costs: RegistrationCosts) -> str:
    """``costs`` as a file that ``load_registration_costs`` reads."""
    lines = [f"title = {_text(costs.title)}", f"description = {_text(costs.description)}"]
    if costs.limits.limits:
        lines.append(f"limits = {_text(costs.limits.name)}")
    lines += ["", "[costs]"]
    for name, span in costs.costs.items():
        unit, factor = next(iter(COSTS[name][1].items()))
        low, high = (f"{end / float(factor):.6g}" for end in span)
        value = low if low == high else f"[{low}, {high}]"
        origin = costs.origins[name]
        lines.append(
            f'{name} = {{ value = {value}, unit = "{unit}", '
            f'evidence = "{origin.evidence.value}", source = {_text(origin.source)} }}'
        )
    if costs.measured:
        lines += ["", "[measured]", *(f"{key} = {most}" for key, most in costs.measured.items())]
    for section, table in (("not_applicable", costs.not_applicable), ("sources", costs.sources)):
        if table:
            lines += ["", f"[{section}]"]
            lines += [f"{_text(key)} = {_text(text)}" for key, text in table.items()]
    return "\n".join(lines) + "\n"


def _text(given: str) -> str:
    """A basic string of TOML, which JSON's are but for what is no character of TOML."""
    return json.dumps(given, ensure_ascii=False).replace("\x7f", "\\u007f")
