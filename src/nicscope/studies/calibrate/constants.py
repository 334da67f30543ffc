"""What a calibration may change, within which bounds, and what follows from it.

A constant may stand for several costs, on several platforms: the fewer, the more is predicted.
Everything else (published, derived, assumed) is taken from the catalog as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nicscope.studies.delivery_measures import PLATFORMS, platform_costs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nicscope.studies.delivery_measures import Costs

BUS_PS_PER_BYTE = 7576  # 132 MB/s: the peak of a 32-bit bus at 33 MHz
GOOD_BUS_PS_PER_BYTE = 8270  # 64 KB at just over 120 MB/s, which Figure 1 passes, with its start
STEP_PS = 10_000  # times in the catalog are rounded to this
STEP_PS_PER_BYTE = 5

ALPHAS = ("alcor", "miata")
P6 = ("p6-natoma",)
PENTIUM2 = ("pentium2-440lx",)


class Constant(msgspec.Struct, frozen=True):
    """One free number: the costs that it is, where, and between which bounds (ps)."""

    name: str
    costs: tuple[str, ...]
    platforms: tuple[str, ...]
    low: int
    high: int

    @property
    def step(self) -> int:
        """What the catalog rounds it to (ps)."""
        return STEP_PS_PER_BYTE if self.costs[0].endswith("per_byte") else STEP_PS


CONSTANTS = (
    Constant("firmware_start", ("firmware_start",), PLATFORMS, 200_000, 4_000_000),
    Constant("firmware_finish", ("firmware_finish",), PLATFORMS, 200_000, 4_000_000),
    Constant("link_start", ("link_start",), PLATFORMS, 100_000, 6_000_000),
    Constant("pci_read_start", ("pci_read_start",), PLATFORMS, 500_000, 6_000_000),
    Constant("pci_write_start", ("pci_write_start",), PLATFORMS, 500_000, 6_000_000),
    Constant(
        "p6 read", ("pci_read_per_byte",), P6, BUS_PS_PER_BYTE, GOOD_BUS_PS_PER_BYTE
    ),
    Constant(
        "p6 write", ("pci_write_per_byte",), P6, BUS_PS_PER_BYTE, GOOD_BUS_PS_PER_BYTE
    ),
    Constant("p6 pio_read", ("pio_read",), P6, 500_000, 15_000_000),
    Constant("p6 contended read", ("pci_read_contended_per_byte",), P6, 20_000, 35_000),
    Constant(
        "pentium2 read", ("pci_read_per_byte",), PENTIUM2, BUS_PS_PER_BYTE, GOOD_BUS_PS_PER_BYTE
    ),
    Constant(
        "pentium2 write", ("pci_write_per_byte",), PENTIUM2, BUS_PS_PER_BYTE, GOOD_BUS_PS_PER_BYTE
    ),
    Constant("pentium2 pio_read", ("pio_read",), PENTIUM2, 500_000, 15_000_000),
    Constant("alcor read", ("pci_read_per_byte",), ("alcor",), BUS_PS_PER_BYTE, 8333),
    Constant("alcor write", ("pci_write_per_byte",), ("alcor",), 10_000, 20_000),
    Constant("alcor pio_read", ("pio_read",), ("alcor",), 500_000, 20_000_000),
    Constant("miata write", ("pci_write_per_byte",), ("miata",), BUS_PS_PER_BYTE, 8333),
    Constant("miata pio_read", ("pio_read",), ("miata",), 500_000, 20_000_000),
)


def build_costs(values: Sequence[float], fixed: Mapping[str, Costs]) -> dict[str, Costs]:
    """Costs of each platform with ``values`` in place of ``CONSTANTS``, in whole picoseconds."""
    built = {name: dict(each) for name, each in fixed.items()}
    for constant, value in zip(CONSTANTS, values, strict=True):
        for platform in constant.platforms:
            for cost in constant.costs:
                built[platform][cost] = round(value)
    _follow(built)
    return dict(built)


def _follow(built: dict[str, dict[str, int]]) -> None:
    """Set what hangs on the constants; the catalog's sources say why."""
    natoma = built["p6-natoma"]["pci_read_contended_per_byte"]
    for name, costs in built.items():
        costs["pci_write_contended_per_byte"] = natoma  # PIO holds the bus on every bridge
        if name == "alcor":  # CIA starves the CPU
            costs["pci_read_contended_per_byte"] = costs["pci_read_per_byte"]
        elif name != "p6-natoma":  # 440LX and Pyxis nearly serve both
            costs["pci_read_contended_per_byte"] = costs["pci_read_per_byte"] * 11 // 10
    built["p6-natoma"]["block_copy_contended_per_byte"] = natoma  # Natoma shares evenly
    built["miata"]["pci_read_per_byte"] = built["alcor"]["pci_read_per_byte"]
    built["miata"]["pci_read_contended_per_byte"] = built["miata"]["pci_read_per_byte"] * 11 // 10


def committed() -> list[int]:
    """The catalog's values of ``CONSTANTS`` (ps)."""
    costs = platform_costs()
    return [costs[each.platforms[0]][each.costs[0]] for each in CONSTANTS]


def rounded(values: Sequence[float]) -> list[int]:
    """``values`` as the catalog would hold them."""
    return [
        round(value / each.step) * each.step
        for each, value in zip(CONSTANTS, values, strict=True)
    ]
