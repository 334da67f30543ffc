"""Values given by programs, validated once: whole numbers, times, names, bytes, keywords.

What crosses to the compiled driver has 64 bits.  A number that does not fit, or is none, is refused
in one line here, before it gets that far.
"""

from __future__ import annotations

import functools
import inspect
import operator
import re
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, cast

import msgspec

from nicscope.config.design import POLICIES, Delivery, Transport
from nicscope.config.platform import TIME_UNITS, whole_ps
from nicscope.drivers.simulate.ports.build import Faults, HostSize, PortSize, check_whole
from nicscope.errors import SimulationError, did_you_mean
from nicscope.fabric.topology import Topology
from nicscope.tracebacks import TrimmedTraceback

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nicscope.memory.replacement import Replacement

T = TypeVar("T")
PS_PER_US = 1_000_000
LEAST, MOST = -(2**63), 2**63 - 1
LAST_PS = 2**62 - 1  # of a clock; what is never due is at the next one
SHOWN = 60  # characters of a value that is not what it should be


def whole(value: object, what: str, least: int = 0, most: int = MOST) -> int:
    """``value`` as an int, if it is a whole number from ``least`` to ``most``; bools are none.

    Errors: ``SimulationError`` naming ``what`` it should have been.
    """
    if type(value) is int:
        number = value
    else:
        try:
            number = operator.index(cast("Any", value))
        except TypeError:
            number = least - 1
        if isinstance(value, bool):
            number = least - 1
    if not least <= number <= most:
        is_bound = most < MOST or number > MOST
        span = f"from {least} to {most}" if is_bound else f"of at least {least}"
        raise SimulationError(
            f"{what} must be a whole number{f' {span}' if least > LEAST else ''}, got "
            f"{shown(value)}"
        )
    return number


def node_count(value: object) -> int:
    """How many nodes a cluster has.  Errors: ``SimulationError`` for none, and for no number."""
    if type(value) is int and value < 1:
        raise SimulationError(f"a cluster must have at least 1 node, got nodes={value}")
    return whole(value, "nodes", 1)


def in_ps(microseconds: object, now: int = 0, what: str = "a time") -> int:
    """Whole picoseconds, which end while the clock still goes if they begin ``now``.

    Errors: ``SimulationError`` for what is no number, negative, or beyond the clock's end.
    """
    number = _real(microseconds)
    if number is None:
        raise SimulationError(f"{what} must be a number of us, got {shown(microseconds)}")
    if number < 0:
        raise SimulationError(f"{what} must not be negative, got {shown(microseconds)} us")
    if not number <= (LAST_PS - now) // PS_PER_US:  # nor is it, if it is not a number
        raise SimulationError(
            f"{what} must end before the clock does, at {LAST_PS // PS_PER_US} us, got "
            f"{shown(microseconds)} us"
        )
    return round(number * PS_PER_US)


_NUMBER = re.compile(r"([+-]?[0-9]+(?:\.[0-9]+)?) *([A-Za-z/]*)")


def read_time(where: str, text: str, units: Mapping[str, int], example: str) -> int:
    """Whole picoseconds from a number and one of ``units``.

    Errors: ``SimulationError`` that says ``where``, and an ``example``.
    """
    split = _NUMBER.fullmatch(text.strip())
    if not split or split[2] not in units:
        raise SimulationError(
            f"{where}: must be a number and a unit ({', '.join(units)}), such as {example}"
        )
    ps = whole_ps(Decimal(split[1]), units[split[2]])
    if ps is None:
        raise SimulationError(f"{where}: {split[0]} is not a whole number of picoseconds")
    return ps


def a_fraction(value: object, what: str) -> int | float | Fraction:
    """``value``, a number from 0 to 1.  Errors: ``SimulationError`` naming ``what`` is none."""
    number = _real(value)
    if number is None or not 0 <= number <= 1:
        raise SimulationError(f"{what} must be a number from 0 to 1, got {shown(value)}")
    return number


def _real(value: object) -> int | float | Fraction | None:
    """A number as Python counts with it; None for what is none."""
    if type(value) is float or type(value) is int:
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    if isinstance(value, int | float | Fraction):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def a_name(value: object, what: str = "a name") -> str:
    """``value``, if it is a string.  Errors: ``SimulationError``."""
    if not isinstance(value, str):
        raise SimulationError(f"{what} must be a string, got {shown(value)}")
    return value


def raw_bytes(content: object) -> bytes:
    """What a program stores, as bytes.  Errors: ``SimulationError`` if it has none."""
    if type(content) is bytes:
        return content
    if isinstance(content, str):
        raise SimulationError(
            f"bytes are needed, and a str has none until it is encoded: {shown(content)}.encode()"
        )
    try:
        return bytes(memoryview(cast("bytes", content)))
    except (TypeError, ValueError, BufferError):
        raise SimulationError(f"bytes are needed, got {shown(content)}") from None


def has_bytes(content: object) -> bool:
    """Whether ``content`` has bytes of its own, or is a str, which could be encoded."""
    if isinstance(content, str):
        return True
    try:
        memoryview(cast("bytes", content)).release()
    except TypeError:
        return False
    return True


def shown(value: object) -> str:
    """A value in a message: one line, and not a long one."""
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def checked_faults(faults: object) -> Faults:
    """The faults of a network as they were given; None: there are none.  Errors: for others."""
    return Faults() if faults is None else one_of(Faults, faults, "faults", "(loss=0.02, seed=1)")


def checked_host(host: object) -> HostSize:
    """A host's size as it was given; None: the default.  Errors: for what is none."""
    size = HostSize() if host is None else one_of(HostSize, host, "host", "(frames=4096)")
    for name in ("frames", "pages_per_space"):
        check_whole(getattr(size, name), name, "HostSize", 1)
    return size


def checked_size(given: object) -> PortSize:
    """Queues and tables of NICs, likewise."""
    size = PortSize() if given is None else one_of(PortSize, given, "size", "(ring=128)")
    for name in ("ring", "segments", "longest"):
        check_whole(getattr(size, name), name, "PortSize", 1)
    return size


def one_of(kind: type[T], given: object, name: str, such: str) -> T:
    """``given``, if it is a ``kind``.  Errors: one that says to write ``such``."""
    if not isinstance(given, kind):
        raise SimulationError(f"{name} is one of {kind.__name__}{such}, not {shown(given)}")
    return given


def chosen_delivery(
    delivery: str | Delivery | None, policy: str | Delivery | None, otherwise: str | Delivery
) -> Delivery:
    """A delivery policy in full, by its name or as it was given.  Errors: for what is none."""
    given = next(each for each in (delivery, policy, otherwise) if each is not None)
    if isinstance(given, str):
        if given not in POLICIES:
            raise SimulationError(f"no policy {given!r}{did_you_mean(given, POLICIES)}")
        given = POLICIES[given]
    return one_of(Delivery, given, "delivery", "(policy=...), or its name")


def check_deaths(faults: Faults, nodes: int) -> None:
    """Errors: for nodes that are to die, and of which there are not so many."""
    for node in faults.node_deaths:
        if not 0 <= node < nodes:
            raise SimulationError(f"no node {node} to die; there are nodes 0 to {nodes - 1}")


LONGEST_DELAY_PS = 10**12  # 1 s: 200,000 km of fibre


def checked_topology(topology: object, delay: object = None) -> Topology:
    """A network as it was given, over which packets propagate for ``delay`` (text such as "40ms").

    Errors: for what is none.
    """
    if isinstance(topology, Topology):
        whole(topology.nodes, "a topology's nodes", 1)
        if delay is None:
            return topology
        if not isinstance(delay, str):
            raise SimulationError(
                f"delay must be a number and a unit, such as '40ms', got {shown(delay)}"
            )
        ps = read_time("delay", delay, TIME_UNITS, "40ms")
        if not 0 <= ps <= LONGEST_DELAY_PS:
            raise SimulationError(f"delay must be from 0 to 1 s, got {delay}")
        return msgspec.structs.replace(topology, delay_ps=ps)
    raise SimulationError(
        f"topology is one such as crossbar(4) of nicscope.interfaces, not {shown(topology)}"
    )


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
    delay: str | None  # of a packet between two nodes, such as "40ms"
    transport: str | Transport | None
    faults: Faults | None
    host: HostSize | None
    size: PortSize | None
    keep_log: int
    place: Fraction


class SharedOptions(DesignSettings, RunOptions, total=False):
    """All of these."""


F = TypeVar("F", bound="Callable[..., Any]")


def with_named_options(*several: type) -> Callable[[F], F]:
    """Have a function say by name which keywords its ``**options`` are, those of ``several``.

    Called with another, it raises a ``SimulationError`` that names the nearest; that and all else
    that it raises is told plainly (``nicscope.tracebacks``).
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
            with TrimmedTraceback():
                for name in options:
                    if name not in names:
                        raise unknown(name, names)
                return function(*given, **options)

        checked.__signature__ = plain.replace(parameters=own)  # type: ignore[attr-defined]
        return checked  # type: ignore[return-value]

    return decorated


def unknown(name: str, names: Sequence[str]) -> SimulationError:
    """The error for a keyword that is none of ``names``."""
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


class _OmittedOption:
    """What stands in a signature for a keyword that was left out: whoever asked decides."""

    def __repr__(self) -> str:
        return "..."


LEFT_OUT = _OmittedOption()


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
