"""What can run on what: an interface over a way into the NIC, with a design, on a platform.

``why_not`` is the one place that says so.  Clusters ask it before they build anything, and the
table in ``docs/ways.md`` is made from it.  A line of ``INTERFACES`` says what an interface's
machine has so far; the other rules hold for whoever has it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from nicscope.config.design import SCHEMES, Design, Pins, Scheme, ServedBy, Way
from nicscope.config.platform import (
    OF_VIA,
    VIA_COSTS,
    Platform,
    check_priced,
    delivery_costs,
    load_platform,
    missing_machine_words,
    platform_names,
    transfer_costs,
    unpriced_of_design,
)
from nicscope.drivers.simulate.ports.costs import check_searched
from nicscope.errors import DesignError, NicscopeError, PlatformError, SimulationError, did_you_mean
from nicscope.nic import coherent

if TYPE_CHECKING:
    from collections.abc import Mapping


RUNS = "runs"
PORTS = "a cluster of ports"
TRACE = "a trace"  # in virtual time
OF_PORTS = tuple(Way)
BY_PROCESSOR = tuple(
    Way(word) for word, one in coherent.NAMES.items() if one in coherent.BY_PROCESSOR
)
HELPED_BY_HOST = tuple(
    Way(word) for word, one in coherent.NAMES.items() if one in coherent.HELPED_BY_HOST
)
HELP = ("interrupt",)  # and what that takes
# ``rnic`` looks regions up that programs have registered: those of verbs alone do.
IN_TIME = tuple(scheme for scheme in Scheme if scheme is not Scheme.RNIC)
OF_PCI = "pci_read_per_byte"  # does not apply where there is no I/O bus


class Interface(NamedTuple):
    """What the machine under an interface has."""

    ways: tuple[Way, ...]
    schemes: tuple[Scheme, ...] | None = None  # of its translations; None: has none
    serves_ports: bool = True
    by_nic: bool = False  # no kernel serves them
    library: bool = False  # has prices of its own: those of VIA
    makes_no_sense: Mapping[Way, str] = MappingProxyType({})  # why a way is not missing


INTERFACES: dict[str, Interface] = {
    "U-Net": Interface(OF_PORTS, IN_TIME),
    "VMMC": Interface(
        OF_PORTS,
        (
            Scheme.UTLB,
            Scheme.UTLB_SHARED,
            Scheme.UTLB_PROCESS,
            Scheme.STATIC,
            Scheme.INTERRUPT,
        ),
    ),
    "miNI": Interface(OF_PORTS, (Scheme.HANDLE, Scheme.STATIC)),
    PORTS: Interface(OF_PORTS, IN_TIME),  # without a library
    TRACE: Interface(
        (Way.PCI, Way.CC_DMA_RETRY, Way.CC_DMA_INTERVENTION, Way.EDT),
        IN_TIME,
        makes_no_sense=dict.fromkeys(
            (*BY_PROCESSOR, Way.DMA),
            "a trace has no program whose processor could move or flush what it names",
        ),
    ),
    "Trapeze": Interface(
        (Way.PCI, Way.CC_DMA_RETRY, Way.CC_DMA_INTERVENTION),
        serves_ports=False,
        makes_no_sense=dict.fromkeys(BY_PROCESSOR, "Trapeze's payloads go by DMA alone (2.1)")
        | {Way.EDT: "Trapeze sends from memory that was not registered before (2.1)"},
    ),
    # What it uses is registered, so pinned: not by what pins a page when the NIC misses it.
    "VIA": Interface(
        OF_PORTS,
        (Scheme.STATIC, Scheme.UTLB, Scheme.UTLB_SHARED, Scheme.UTLB_PROCESS),
        library=True,
    ),
    # Memory is registered, and what pins at a miss is paging on demand.
    "verbs": Interface(
        (Way.PCI,),
        (
            Scheme.STATIC,
            Scheme.RNIC,
            Scheme.UTLB,
            Scheme.UTLB_SHARED,
            Scheme.UTLB_PROCESS,
            Scheme.INTERRUPT,
            Scheme.UNET_MM,
        ),
        by_nic=True,
    ),
}


def way_named(name: str) -> Way:
    """The way of that name.  Errors: ``SimulationError`` naming those that there are."""
    try:
        return Way(name)
    except ValueError:
        raise SimulationError(f"no way {name!r}{did_you_mean(name, list(Way))}") from None


class Combination(NamedTuple):
    """What is asked to run together; ``interface`` is a name of ``INTERFACES``."""

    interface: str
    platform: Platform
    way: str = Way.PCI
    design: Design | None = None  # None: there is no translation of a design
    cuts_through: bool = False


def check_runs(asked: Combination) -> None:
    """Return if ``asked`` runs; else raise the error whose one line says why it does not."""
    refusal = _refusal(asked)
    if refusal is not None:
        raise refusal


def why_not(asked: Combination) -> str | None:
    """Why ``asked`` does not run, in one line; None if it runs."""
    refusal = _refusal(asked)
    return None if refusal is None else str(refusal)


def _refusal(asked: Combination) -> NicscopeError | None:
    """What makes no sense comes first, then what is not built, then what has no price."""
    for rule in (_of_schemes, _of_who_serves, _of_ways, _of_parts, _of_prices):
        found = rule(asked)
        if found is not None:
            return found
    return None


def _of_schemes(asked: Combination) -> NicscopeError | None:
    schemes = INTERFACES[asked.interface].schemes
    if asked.design is None or schemes is None:
        return None
    if asked.design.scheme in schemes:
        return _of_regions(asked.design)
    return DesignError(
        f"design {asked.design.name!r}: {asked.interface} translates by "
        f"{', '.join(schemes)}, not by {asked.design.scheme.value}; choose a design of "
        "one of these"
    )


def _of_regions(design: Design) -> NicscopeError | None:
    if design.registered is not None:
        return DesignError(
            f"design {design.name!r}: registered says what the processes of a trace had; a program "
            "registers what it uses: leave that out"
        )
    if design.indirect is not None:
        return DesignError(
            f"design {design.name!r}: regions made of regions are looked up in replay alone so "
            "far: leave indirect out"
        )
    return None


def _of_who_serves(asked: Combination) -> NicscopeError | None:
    design, platform = asked.design, asked.platform
    if design is None or not INTERFACES[asked.interface].serves_ports:
        return None
    by_kernel = (design.served_by or platform.served_by) == ServedBy.KERNEL
    if by_kernel and INTERFACES[asked.interface].by_nic:
        return DesignError(
            f"design {design.name!r} has the host's kernel serve ports, and {asked.interface} has "
            "its NIC serve them; choose another design, or served_by=nic on another platform"
        )
    if by_kernel and asked.way != Way.PCI:
        return DesignError(
            f"{asked.way} is a way of a NIC that serves ports itself; where the host's kernel "
            "serves them the NIC only moves frames: take way=pci, or served_by=nic on another "
            "platform"
        )
    if by_kernel and "trap" in platform.not_applicable:
        return PlatformError(
            f"design {design.name!r} has the host's kernel serve ports in a trap, and platform "
            f"{platform.name!r} has none ({platform.not_applicable['trap']}); choose another, or "
            "served_by=nic"
        )
    if not by_kernel and platform.served_by == ServedBy.KERNEL:
        assert platform.served_by_origin is not None
        return PlatformError(
            f"design {design.name!r} has the NIC serve ports, and that of platform "
            f"{platform.name!r} cannot ({platform.served_by_origin.source}); choose another, or "
            "served_by=kernel"
        )
    return None


def _of_ways(asked: Combination) -> NicscopeError | None:
    design, way, interface = asked.design, asked.way, INTERFACES[asked.interface]
    is_late = design is not None and SCHEMES[design.scheme].pins is Pins.AT_MISS
    if design is not None and is_late and way == Way.EDT:
        return DesignError(
            "edt needs a buffer on the NIC before the program writes, and under "
            f"{design.scheme.value} a page is pinned only when the NIC misses it; take a scheme "
            "that pins before the doorbell"
        )
    if way in interface.ways:
        return None
    if way in interface.makes_no_sense:
        return SimulationError(f"{interface.makes_no_sense[Way(way)]}; take another way than {way}")
    others = [
        name for name, one in INTERFACES.items() if way in one.ways and name not in (PORTS, TRACE)
    ]
    do = "does" if len(others) == 1 else "do"
    as_they_do = f" as {', '.join(others)} {do}" if others else ""
    own = ", ".join(interface.ways)
    return SimulationError(f"{asked.interface} runs over {own} so far, not over {way}{as_they_do}")


def _of_parts(asked: Combination) -> NicscopeError | None:
    return why_way_refused(asked.interface, asked.way, cuts_through=asked.cuts_through)


def why_way_refused(interface: str, way: str, *, cuts_through: bool) -> NicscopeError | None:
    """Why a delivery makes no sense over ``way``, whatever it costs; None where it does."""
    if not cuts_through or way not in BY_PROCESSOR:
        return None
    serves = INTERFACES[interface].serves_ports
    instead = "take delivery=store-and-forward, or " if serves else ""
    return SimulationError(
        f"{way} cannot cut through: the processor itself moves whole messages, before the "
        f"doorbell and after the completion; {instead}use edt or a DMA mechanism"
    )


def _of_prices(asked: Combination) -> NicscopeError | None:
    if asked.way != Way.PCI or INTERFACES[asked.interface].library:
        refusal = _of_bus_prices(asked)
        if refusal is not None:
            return refusal
    return _of_link_prices(asked)


def _of_link_prices(asked: Combination) -> NicscopeError | None:
    platform, serves_ports = asked.platform, INTERFACES[asked.interface].serves_ports
    if asked.way == Way.PCI and OF_PCI in platform.not_applicable:
        return PlatformError(
            f"platform {platform.name!r} has no I/O bus ({platform.not_applicable[OF_PCI]}); take "
            "another way than pci"
        )
    try:
        (transfer_costs if serves_ports else delivery_costs)(platform)
        if asked.design is not None and serves_ports:
            served_by = asked.design.served_by or platform.served_by
            check_priced(platform, asked.design.scheme, served_by)
            check_searched(asked.design, unpriced_of_design(platform))
    except PlatformError as error:
        return error
    return None


def _of_bus_prices(asked: Combination) -> NicscopeError | None:
    absent = _unstated(asked)
    if not absent:
        return None
    every = [load_platform(name) for name in platform_names()]
    known = [one.name for one in every if _states_all(asked._replace(platform=one))]
    more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
    return PlatformError(
        f"platform {asked.platform.name!r} states no {absent[0]}{more}, so {asked.interface} "
        f"cannot be simulated on it; it can on {', '.join(known)}"
    )


def _states_all(asked: Combination) -> bool:
    return not _unstated(asked) and not _of_link_prices(asked)


def _unstated(asked: Combination) -> list[str]:
    """What the library, the host and the interface at its bus take that is not stated."""
    platform, library = asked.platform, INTERFACES[asked.interface].library
    needed = (*(VIA_COSTS if library else ()), *(HELP if asked.way in HELPED_BY_HOST else ()))
    absent = [name for name in needed if name not in platform.costs]
    return absent + missing_machine_words(platform, OF_VIA if library else ())
