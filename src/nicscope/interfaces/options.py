"""``Cluster`` and its keywords: a design's settings, and what each interface takes."""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack, overload

from nicscope.config.design import INTERFACE_NAMES, Delivery, Design, read_interface
from nicscope.errors import DesignError, SimulationError, did_you_mean
from nicscope.interfaces.arguments import DesignSettings, SharedOptions, with_named_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from nicscope.config.platform import Platform
    from nicscope.drivers.simulate.ports.build import Faults
    from nicscope.drivers.simulate.processor import OtherMaster
    from nicscope.fabric.topology import Topology
    from nicscope.interfaces import mini, trapeze, unet, via, vmmc
    from nicscope.interfaces.ports.cluster import PortCluster
    from nicscope.interfaces.unet import TagForm


class PlatformOption(TypedDict, total=False):
    """What things cost: a platform of the catalog, a file, or one that was read."""

    platform: str | Path | Platform | None


class VmmcOptions(SharedOptions, PlatformOption, total=False):
    """Of a cluster of VMMC, and of miNI."""


class UNetOptions(VmmcOptions, total=False):
    """Of a cluster of U-Net."""

    endpoints: int | None
    buffer_bytes: int | None
    fresh: bool | None
    small_inside: bool
    tags: TagForm | None


class ViaOptions(VmmcOptions, total=False):
    """Of a cluster of VIA."""

    vis: int
    queues: int
    names: Mapping[str, int | Sequence[int]] | None
    settings: Mapping[str, int] | None


class AnyOptions(UNetOptions, ViaOptions, total=False):
    """Of a cluster whose NICs serve ports, whatever its interface turns out to be."""


class TrapezeOptions(TypedDict, total=False):
    """Of a cluster of Trapeze, which sends nothing again and translates nothing."""

    platform: str | Path | Platform | Sequence[str | Path | Platform] | None
    nodes: int
    delivery: str | Delivery
    policy: str | Delivery
    topology: Topology | None
    delay: str | None
    max_payload: int | None
    shadow: bool
    host_bytes: int
    tags: int
    keep_log: int
    way: str
    masters: Sequence[OtherMaster]
    faults: Faults | None


# What each of them is; a test holds these words against the catalog.
UNetDesign: TypeAlias = 'Literal["unet", "unet-mm-pca200", "unet-mm-dc21140"]'
VmmcDesign: TypeAlias = (
    'Literal["vmmc", "utlb", "utlb-shared", "utlb-process", "vmmc-interrupt", "vmmc-static"]'
)
MiniDesign: TypeAlias = 'Literal["mini"]'
ViaDesign: TypeAlias = 'Literal["via", "edt", "via-static"]'
TrapezeDesign: TypeAlias = 'Literal["trapeze"]'

EDT = "edt"
# Words that are no designs, and the design that each stands for (a paper's, or the first choice of
# its interface); Trapeze has none, as nothing is translated on its NIC.
FIRST_CHOICE = {"vmmc": "utlb", "via": "via-static", EDT: "via-static", "trapeze": None}
BY_SCHEME = {"pinned": "unet", "unet-mm": "unet", "handle": "mini"}  # the others are VMMC's
DESIGN_SETTINGS = frozenset(DesignSettings.__annotations__)
TRAPEZE_PLATFORM = "p6-natoma"  # on which most of its numbers were fitted (docs/trapeze.md)


@overload
def Cluster(
    design: UNetDesign, *, interface: None = None, **options: Unpack[UNetOptions]
) -> unet.Cluster: ...
@overload
def Cluster(
    design: VmmcDesign, *, interface: None = None, **options: Unpack[VmmcOptions]
) -> vmmc.Cluster: ...
@overload
def Cluster(
    design: MiniDesign, *, interface: None = None, **options: Unpack[VmmcOptions]
) -> mini.Cluster: ...
@overload
def Cluster(
    design: ViaDesign, *, interface: None = None, **options: Unpack[ViaOptions]
) -> via.Cluster: ...
@overload
def Cluster(  # type: ignore[overload-overlap]  # any other text is none of Trapeze's
    design: TrapezeDesign, *, interface: None = None, **options: Unpack[TrapezeOptions]
) -> trapeze.Cluster: ...
@overload
def Cluster(
    design: str | Path | Design, *, interface: Literal["unet"], **options: Unpack[UNetOptions]
) -> unet.Cluster: ...
@overload
def Cluster(
    design: str | Path | Design, *, interface: Literal["vmmc"], **options: Unpack[VmmcOptions]
) -> vmmc.Cluster: ...
@overload
def Cluster(
    design: str | Path | Design, *, interface: Literal["mini"], **options: Unpack[VmmcOptions]
) -> mini.Cluster: ...
@overload
def Cluster(
    design: str | Path | Design, *, interface: Literal["via"], **options: Unpack[ViaOptions]
) -> via.Cluster: ...
@overload
def Cluster(
    design: str | Path | Design, *, interface: str | None = None, **options: Unpack[AnyOptions]
) -> PortCluster[Any]: ...


@with_named_options(AnyOptions, TrapezeOptions)
def Cluster(  # noqa: N802 - it reads as the class of what it gives
    design: str | Path | Design, *, interface: str | None = None, **options: Any
) -> Any:
    """Hosts on one network with NICs of ``design``, to start programs on and to run.

    ``design``: of the catalog (``nicscope designs``), a design file, or a ``Design``; it knows its
    interface, and one that serves several takes ``interface``: ``unet``, ``vmmc``, ``mini`` or
    ``via``.  The words ``vmmc``, ``via``, ``edt`` and ``trapeze`` stand for an interface with its
    own first choice.

    Settings of the design are keywords (``pin_limit=64``), and so are ``platform`` (whose costs
    hold), ``nodes``, ``topology``, ``delay`` (of a packet between two nodes, such as ``"40ms"``),
    ``transport``, ``faults``, ``delivery``, ``way`` and the sizes of hosts and NICs.  Errors:
    ``NicscopeError`` naming what is not there, with the nearest name, or why it cannot run
    together.
    """
    # The word that ``design`` is, if it stands for an interface.
    word = design if isinstance(design, str) and design in FIRST_CHOICE else None
    named = read_interface(interface, "Cluster", SimulationError) if interface else None
    if "trapeze" in (word, named):
        return _trapeze(design, options)
    from nicscope.config.design import chosen_design, design_names

    settings = {key: options.pop(key) for key in [*options] if key in DESIGN_SETTINGS}
    if settings.get("area_bytes", 0) is None:
        del settings["area_bytes"]
    if word == EDT:
        settings = {"way": EDT, **settings}
    if word is not None:
        design = FIRST_CHOICE[word] or ""
    elif isinstance(design, str) and not design.endswith(".toml"):
        known = [*design_names(), *FIRST_CHOICE]
        if design not in known:
            raise DesignError(
                f"no design {design!r} (a file of your own ends in .toml)"
                f"{did_you_mean(design, known)}"
            )
    chosen = chosen_design(design, settings)
    if named is None and word in INTERFACE_NAMES:
        named = word
    named = named or chosen.interface or BY_SCHEME.get(chosen.scheme.value, "vmmc")
    # None says no more than leaving it out: the interface's own holds.
    given = {key: value for key, value in options.items() if value is not None}
    kind = import_module(f"nicscope.interfaces.{named}").Cluster
    _check_own(kind, named, given)
    if named == "via":
        return kind(design=chosen, way=chosen.way, **given)
    return kind(chosen, **given)


def _check_own(kind: Any, named: str, options: dict[str, Any]) -> None:
    """Errors: ``SimulationError`` for what others have, and a cluster of ``kind`` has not."""
    own = signature(kind).parameters
    for name in options:
        if name not in own:
            others = did_you_mean(name, [one for one in own if one not in DESIGN_SETTINGS])
            raise SimulationError(f"a cluster of {INTERFACE_NAMES[named]} has no {name!r}{others}")


def _trapeze(design: object, options: dict[str, Any]) -> trapeze.Cluster:
    from nicscope.interfaces import trapeze

    if design != "trapeze":
        raise SimulationError(
            f"Trapeze has no design such as {design!r}: it translates nothing on its NIC; name it "
            'Cluster("trapeze")'
        )
    platform = options.pop("platform", None) or TRAPEZE_PLATFORM
    given = {key: value for key, value in options.items() if value is not None}
    for name in given:
        if name == "transport":
            raise SimulationError(
                "a cluster of Trapeze has no 'transport': it sends each message once, whatever "
                "becomes of it; leave it out"
            )
        if name in DESIGN_SETTINGS and name != "way":
            raise SimulationError(
                f"a cluster of Trapeze has no {name!r}: it translates nothing on its NIC; leave it "
                "out"
            )
    _check_own(trapeze.Cluster, "trapeze", given)
    return trapeze.Cluster(platform, **given)
