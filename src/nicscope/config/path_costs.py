"""What lies between an RDMA NIC and memory costs: PCIe, the IOMMU, calls that map."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.ranged_costs import NS, US, RangedCosts, load_ranged_costs
from nicscope.config.shelf import shelf_names
from nicscope.telling import ToldPlainly

if TYPE_CHECKING:
    from pathlib import Path

    from nicscope.config.ranged_costs import Known

GENERATIONS = ("gen3", "gen4", "gen5")
COSTS: Known = {
    "access": ("an access to 4 KiB that the IOMMU translates at once", {"ns": NS}),
    "walk_read": ("a read of a table by a walk of the IOMMU", {"ns": NS}),
    "map": ("a call that maps a buffer for a device", {"us": US}),
    "unmap": ("a call that takes it away and waits until the IOMMU has forgotten it", {"us": US}),
    "dma_read": (
        "a read of the host's memory by the NIC, until the first bytes are there",
        {"ns": NS},
    ),
    **{name: ("4 KiB over PCIe of that generation, 16 lanes", {"ns": NS}) for name in GENERATIONS},
}


def path_names() -> list[str]:
    """Names of the catalog's, sorted."""
    return shelf_names("paths")


@ToldPlainly()
def load_path_costs(name_or_path: str | Path) -> RangedCosts:
    """Costs of that name in the catalog, or those of a ``.toml`` file.

    Errors: ``PlatformError`` naming the file and the key that is wrong.
    """
    return load_ranged_costs("paths", COSTS, name_or_path)
