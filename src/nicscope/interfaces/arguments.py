"""Values given by programs, validated once: whole numbers, times, names, bytes.

What crosses to the compiled driver has 64 bits.  A number that does not fit, or is none, is refused
in one line here, before it gets that far.
"""

from __future__ import annotations

import operator
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, TypeVar, cast

from nicscope.drivers.simulate.ports.build import Faults, HostSize, PortSize, check_whole
from nicscope.errors import SimulationError
from nicscope.fabric.topology import Topology

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


def check_deaths(faults: Faults, nodes: int) -> None:
    """Errors: for nodes that are to die, and of which there are not so many."""
    for node in faults.node_deaths:
        if not 0 <= node < nodes:
            raise SimulationError(f"no node {node} to die; there are nodes 0 to {nodes - 1}")


def checked_topology(topology: object) -> Topology:
    """A network as it was given.  Errors: for what is none."""
    if isinstance(topology, Topology):
        whole(topology.nodes, "a topology's nodes", 1)
        return topology
    raise SimulationError(
        f"topology is one such as crossbar(4) of nicscope.interfaces, not {shown(topology)}"
    )
