"""What a calibration may change, within which bounds, and what follows from it.

A constant may stand for several costs, on several platforms: the fewer, the more is predicted.
Everything else (published, derived, assumed) is taken from the catalog as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nicscope.config.shelf import open_shelf
from nicscope.errors import StudyError
from nicscope.studies.calibrate.cold_start import SMALL
from nicscope.studies.delivery_measures import PLATFORMS, platform_costs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nicscope.studies.delivery_measures import Costs

# Bounds of rates (ps per byte), from the paper's section 2.
BUS = 7576  # 132 MB/s, the peak of its fastest bus
PEAK_120 = 8333  # 120 MB/s, the peak of its slowest
OVER_120 = 8270  # start included, 64 KB pass 120 MB/s, as Figure 1 shows
REGISTERS = 120_000  # four clocks of 33 MHz: a transfer is started by storing to registers
STEP_PS = 10_000  # times in the catalog are rounded to this
STEP_PS_PER_BYTE = 5

SMALL_PS = 7_000_000  # a hostRcv of SMALL bytes on P6/Natoma (Trapeze, 3.4)
ALPHAS = ("alcor", "miata")
P6 = ("p6-natoma",)
P2 = ("pentium2-440lx",)


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
    Constant("firmware_finish", ("firmware_finish",), PLATFORMS, 200_000, 8_000_000),
    Constant("link_start", ("link_start",), PLATFORMS, REGISTERS, 6_000_000),
    Constant("pci_read_start", ("pci_read_start",), PLATFORMS, 500_000, 6_000_000),
    Constant("p6 read", ("pci_read_per_byte",), P6, BUS, OVER_120),
    Constant("p6 write", ("pci_write_per_byte",), P6, BUS, OVER_120),
    Constant("p6 contended read", ("pci_read_contended_per_byte",), P6, 20_000, 35_000),
    Constant("p6 pio_read", ("pio_read",), P6, 500_000, 15_000_000),
    Constant("pentium2 both", ("pci_read_per_byte", "pci_write_per_byte"), P2, BUS, OVER_120),
    Constant("pentium2 pio_read", ("pio_read",), P2, 500_000, 15_000_000),
    Constant("alcor read", ("pci_read_per_byte",), ("alcor",), BUS, PEAK_120),
    Constant("alcor write", ("pci_write_per_byte",), ("alcor",), 10_000, 20_000),
    Constant("miata write", ("pci_write_per_byte",), ("miata",), BUS, PEAK_120),
    Constant("alpha pio_read", ("pio_read",), ALPHAS, 500_000, 20_000_000),
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
    small = SMALL * built["p6-natoma"]["pci_write_per_byte"]
    for name, costs in built.items():
        costs["pci_write_start"] = _to_step(SMALL_PS - small, STEP_PS)
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


def together() -> list[int]:
    """The values (ps) fitted to all of Table 1, which the catalog keeps apart from its platforms.

    Errors: ``StudyError`` if the file does not have every constant.
    """
    _, called, content = open_shelf("calibrations", "trapeze-all", StudyError)
    values = content.get("ps", {})
    names = [each.name for each in CONSTANTS]
    if sorted(values) != sorted(names):
        raise StudyError(f"{called}: [ps] must have {', '.join(names)} and no more")
    return [values[name] for name in names]


def all_together() -> dict[str, Costs]:
    """Costs of each platform with the constants that ``together`` gives."""
    return build_costs(together(), platform_costs())


def rounded(values: Sequence[float]) -> list[int]:
    """``values`` as the catalog would hold them."""
    return [_to_step(value, each.step) for each, value in zip(CONSTANTS, values, strict=True)]


def _to_step(value: float, step: int) -> int:
    return round(value / step) * step
