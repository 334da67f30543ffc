"""What faults of an RDMA NIC and advice of pages cost: ranges, each with its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.ranged_costs import MS, US, RangedCosts, load_ranged_costs
from nicscope.config.shelf import shelf_names
from nicscope.telling import ToldPlainly

if TYPE_CHECKING:
    from pathlib import Path

    from nicscope.config.ranged_costs import Known

# Beside what a page takes that is touched, pinned and entered, which registration states.
COSTS: Known = {
    "nic_fault": ("a fault, from the NIC's event until it goes on", {"us": US, "ms": MS}),
    "page_in": ("a page that is read from swap", {"us": US}),
    "advise": ("a call that advises of pages and waits until they are there", {"us": US}),
    "advise_later": ("a call that advises of pages and does not wait", {"us": US}),
    "invalidation": ("a page whose entry is taken from the NIC", {"us": US}),
}


def fault_names() -> list[str]:
    """Names of the catalog's, sorted."""
    return shelf_names("faults")


@ToldPlainly()
def load_fault_costs(name_or_path: str | Path) -> RangedCosts:
    """Costs of that name in the catalog, or those of a ``.toml`` file.

    Errors: ``PlatformError`` naming the file and the key that is wrong.
    """
    return load_ranged_costs("faults", COSTS, name_or_path)
