"""The keywords of every cluster: a design's settings, what all clusters take, and each one's own.

Constructors take them as ``**options: Unpack[...]``, so that type checkers and editors know each by
its name and type; ``spelt_out`` has ``help()`` and notebooks know them too, and answers a keyword
that there is not with the nearest one.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from nicscope.errors import SimulationError, did_you_mean
from nicscope.telling import ToldPlainly

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from fractions import Fraction
    from pathlib import Path

    from nicscope.config.delivery import Delivery, Transport
    from nicscope.config.platform import Platform
    from nicscope.drivers.simulate.other_master import OtherMaster
    from nicscope.drivers.simulate.ports.build import Faults, HostSize, PortSize
    from nicscope.fabric.topology import Topology
    from nicscope.interfaces.unet.tags import TagForm
    from nicscope.memory.replacement import Replacement


class UnseededSettings(TypedDict, total=False):
    """What of a design can be set beside its name and its seed (``docs/designs.md``)."""

    scheme: str
    area_bytes: int | str | None
    entries: int
    ways: int
    line: int
    victim_entries: int
    most_valid: int | None
    index_offset: bool
    prefetch: int
    prepin: int
    pin_limit: int | None
    replacement: str | Replacement
    high_water: int | None
    page_size: int | str | None
    served_by: str
    way: str


class DesignSettings(UnseededSettings, total=False):
    """All of them, as in a design's file."""

    seed: int


class RunOptions(TypedDict, total=False):
    """What every cluster whose NICs serve ports takes."""

    nodes: int
    delivery: str | Delivery | None
    policy: str | Delivery | None  # the same by an older name
    topology: Topology | None
    transport: str | Transport | None
    faults: Faults | None
    host: HostSize | None
    size: PortSize | None
    keep_log: int
    place: Fraction


class SharedOptions(DesignSettings, RunOptions, total=False):
    """All of these."""


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
    max_payload: int | None
    shadow: bool
    host_bytes: int
    tags: int
    keep_log: int
    way: str
    masters: Sequence[OtherMaster]
    faults: Faults | None


F = TypeVar("F", bound="Callable[..., Any]")


def spelt_out(*several: type) -> Callable[[F], F]:
    """Have a function say by name which keywords its ``**options`` are, those of ``several``.

    Called with another, it raises a ``SimulationError`` that names the nearest; that and all else
    that it raises is told plainly (``nicscope.telling``).
    """

    def decorated(function: F) -> F:
        plain = inspect.signature(function)
        known = list(plain.parameters.values())
        names = [one.name for one in known if one.kind is not inspect.Parameter.VAR_KEYWORD]
        own = [one for one in known if one.name in names]
        for name, kind in _annotations(several).items():
            if name not in names:
                names.append(name)
                own.append(_keyword(name, kind))

        @functools.wraps(function)
        def checked(*given: Any, **options: Any) -> Any:
            with ToldPlainly():
                for name in options:
                    if name not in names:
                        raise unknown(name, names)
                return function(*given, **options)

        checked.__signature__ = plain.replace(parameters=own)  # type: ignore[attr-defined]
        return checked  # type: ignore[return-value]

    return decorated


def unknown(name: str, names: Sequence[str]) -> SimulationError:
    """The error for a keyword that is none of ``names``."""
    from nicscope.config.delivery import Transport
    from nicscope.drivers.simulate.ports.build import Faults, HostSize, PortSize

    for option, kind in {
        "faults": Faults,
        "transport": Transport,
        "host": HostSize,
        "size": PortSize,
    }.items():
        if name in kind.__struct_fields__ and option in names:
            return SimulationError(
                f"a cluster has no setting {name!r}; give {option}={kind.__name__}({name}=...)"
            )
    known = [one for one in names if one != "self"]
    return SimulationError(f"a cluster has no setting {name!r}{did_you_mean(name, known)}")


class _Left:
    """What stands in a signature for a keyword that was left out: whoever asked decides."""

    def __repr__(self) -> str:
        return "..."


LEFT_OUT = _Left()


def _annotations(several: Sequence[type]) -> dict[str, str]:
    """By name, how each keyword's type is written."""
    found: dict[str, str] = {}
    for one in several:
        for name, kind in one.__annotations__.items():
            found[name] = getattr(kind, "__forward_arg__", str(kind))
    return found


def _keyword(name: str, kind: str) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=LEFT_OUT, annotation=kind
    )
