"""A made-up platform, questions about it, and their answers, for tests of ``nicscope flow``."""

from functools import cache

import pytest

from nicscope.config.costs import Evidence, Origin, UnitCost
from nicscope.config.platform import Platform
from nicscope.studies import flow
from nicscope.studies.flow import ask, report

# Picoseconds; round numbers, in the range of machines of 1997.
COSTS = {
    "send_call": 1_000_000,
    "pio_write": 2_000_000,
    "pio_read": 3_000_000,
    "pci_read_start": 1_000_000,
    "pci_read_per_byte": 7_800,
    "pci_read_contended_per_byte": 20_000,
    "pci_write_start": 1_000_000,
    "pci_write_per_byte": 7_800,
    "pci_write_contended_per_byte": 12_000,
    "link_start": 500_000,
    "link_per_byte": 6_250,
    "link_watchdog": 50_000_000_000,
    "switch_hop": 1_000_000,
    "nic_memory_per_byte": 3_800,
    "firmware_start": 2_000_000,
    "firmware_finish": 1_500_000,
    "firmware_accept": 700_000,
    "firmware_log": 2_000_000,
    "block_copy_per_byte": 10_000,
    "block_copy_contended_per_byte": 20_000,
}
UNSAID = {"cell_bytes": 0, "trailer_bytes": 0}  # of a platform whose network has no cells


def made_up(name, absent=()):
    """A platform of ``COSTS`` without those ``absent``."""
    origin = Origin(evidence=Evidence.ASSUMED, source="assumed: round numbers for a test")
    return Platform(
        name=name,
        title=f"{name}, made up",
        description="",
        sources={},
        costs={
            cost: UnitCost(name=cost, unit="ps", origin=origin, low_ps=ps, high_ps=ps)
            for cost, ps in COSTS.items()
            if cost not in absent
        },
        not_applicable={},
    )


def asked(**changes):
    """A question in the words of the command line, on made-up platforms."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flow, "load_platform", made_up)
        return ask(**({"platform": "lab"} | changes))


@cache
def answered(**changes):
    """The report on ``asked``, simulated."""
    return report(asked(**changes), ("nicscope", "flow"))
