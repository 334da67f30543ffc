"""Every public call of everything that programs hold, found in the classes themselves.

A class of the interfaces is a program's, or it is listed in ``NOT_HELD``.  What a parameter takes
is read from its annotation; one that ``KINDS`` and ``VALUES`` do not know fails the tests, and so
does a new class.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from enum import Enum
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import nicscope.interfaces
from nicscope.interfaces import mini, trapeze, unet, via, vmmc
from nicscope.interfaces.active_messages import ActiveMessages, Kept, Links, Stream
from nicscope.interfaces.mini import Region as MiniRegion
from nicscope.interfaces.ports.cluster import PortCluster
from nicscope.interfaces.ports.counters import PortDiagnostics, PortOwners, PortsRun
from nicscope.interfaces.ports.memory import Buffer
from nicscope.interfaces.ports.process import Arrival, Asked, Done, PortMachine, Process
from nicscope.interfaces.programs import Gate
from nicscope.interfaces.run_report import Sent
from nicscope.interfaces.trapeze import Counted, PageMap, PagePool
from nicscope.interfaces.trapeze_memory import Payloads
from nicscope.interfaces.unet import Area, Placed
from nicscope.interfaces.via.agent import Settings
from nicscope.interfaces.via.descriptor import (
    AddressSegment,
    DataSegment,
    Descriptor,
    PendingDescriptors,
    VipTimeoutError,
    Work,
)
from nicscope.interfaces.via.descriptor import Region as ViaRegion
from nicscope.interfaces.via.library import Discovered, MemAttributes, NicAttributes, ViFound
from nicscope.interfaces.via.vi import Asked as ViAsked
from nicscope.interfaces.via.vi import (
    Attributes,
    CompletionQueue,
    ConnectionRequest,
    Kernel,
    PeerRequest,
    PeerRequests,
    RegistrationLimit,
    Request,
    Ring,
    Tags,
    Vi,
    WakeupList,
)
from nicscope.interfaces.via.vi import Endpoint as ViEndpoint
from nicscope.interfaces.via.work import ErrorDescriptor
from nicscope.traces.recording.connections import Connections

if TYPE_CHECKING:
    from collections.abc import Iterator

    from owned_worlds import World

# What programs hold, by the world in which it is tried; and what receives the calls there.
HELD: dict[str, dict[type, str]] = {
    "unet": {
        unet.Process: "process",
        unet.Endpoint: "endpoint",
        Buffer: "buffer",
        Area: "area",
    },
    "active messages": {ActiveMessages: "messages"},
    "vmmc": {
        vmmc.Endpoint: "process",
        vmmc.Exported: "exported",
        vmmc.Imported: "imported",
        vmmc.Transfer: "transfer",
    },
    "mini": {
        mini.Endpoint: "process",
        MiniRegion: "region",
        mini.BufferHandle: "handle",
        mini.Remote: "remote",
    },
    "trapeze": {
        trapeze.Endpoint: "process",
        trapeze.HostBuffer: "buffer",
        trapeze.Message: "message",
    },
    "via": {
        via.Host: "host",
        via.Nic: "process",
        Buffer: "buffer",
        ViaRegion: "region",
        via.Descriptors: "places",
        Descriptor: "descriptor",
        DataSegment: "segment",
        Vi: "vi",
        CompletionQueue: "queue",
        Request: "request",
    },
}

# Values that a program reads, and what belongs to the experimenter, to NICs and to kernels.
NOT_HELD = {
    Gate,  # outside the machine; whoever waits there is checked to wait for itself
    *(Process, Done, Arrival, unet.Message, unet.EthernetPorts, unet.AtmCircuits, unet.TagForm),
    *(vmmc.Completion, vmmc.Notification, vmmc.PinnedPage, mini.Stored),
    *(AddressSegment, NicAttributes, Attributes, via.VipError, VipTimeoutError),
    *(ViFound, MemAttributes, Discovered, ErrorDescriptor),
    *(unet.Cluster, vmmc.Cluster, mini.Cluster, trapeze.Cluster, via.Cluster, PortCluster, Counted),
    *(Payloads, Sent),
    *(WakeupList, PeerRequest, PeerRequests, Tags, RegistrationLimit, Kernel, ViAsked),
    *(Connections, ConnectionRequest, PortOwners, PortsRun, Asked, PortMachine, PortDiagnostics),
    *(mini.Directory, vmmc.Directory, vmmc.Offer, vmmc.PinBook, PagePool, PageMap),
    *(unet.EthernetTag, unet.End, unet.Registry, Kept, Links, Stream),
    *(trapeze.TrapezeRun, Settings, PendingDescriptors, Work, ViEndpoint, Ring, Placed),
}
# Some are parts of what programs hold (``ports.memory``), others act by its calls (``programs``),
# and of views the owner is asked at each access.
NOT_HELD_PARTS = """
    arguments options buffers ownership programs ways run_report run_timeline trapeze_memory
    ports.memory ports.nic_memory ports.shared_memory work_queues
    via.agent via.work via.library
"""
NOT_HELD_MODULES = {f"nicscope.interfaces.{name}" for name in NOT_HELD_PARTS.split()}
NOT_HELD_MODULES |= {"nicscope.tracebacks"}
# Verbs have one program a node, in memory of its own.  What it names that is not its domain's, or
# nobody's, is tried in ``tests/interfaces/verbs``, as keys and numbers of any value.
NOT_HELD_ROOMS = ("nicscope.interfaces.verbs.", "nicscope.interfaces.verbs_device.")

# What a parameter takes that is somebody's, by its annotation.
KINDS = {
    "Buffer": "buffer",
    "MemoryRange": "buffer",
    "Buffer | bytes": "buffer",
    "Buffer | None": "buffer",
    "HostBuffer": "buffer",
    "HostBuffer | None": "buffer",
    "Exported": "exported",
    "Imported": "imported",
    "Transfer | None": "transfer",
    "Region": "region",
    "BufferHandle": "handle",
    "Remote": "remote",
    "Message": "message",
    "Vi": "vi",
    "CompletionQueue": "queue",
    "CompletionQueue | None": "queue",
    "Descriptors": "places",
    "Descriptor": "descriptor",
    "Request": "request",
    "Sequence[DataSegment]": "segments",
}
# And by its name, where numbers are somebody's.
NUMBERED = {("trapeze", "map_payload", "tag"), ("trapeze", "unmap_payload", "tag")}
NUMBERED |= {
    ("via", call, "tag")
    for call in (
        *("destroy_ptag", "register_mem", "descriptors", "create_vi", "create_cq"),
        *("set_vi_attributes", "set_mem_attributes"),
    )
}

# Plain values.  Of those that are numbers anything may be tried.
NUMBERS = {
    *("int", "int | None", "float", "float | None", "float | Fraction | None", "Hashable"),
    "Allowed",
}
VALUES = NUMBERS | {
    *("str", "str | None", "bool", "bool | None", "bytes", "Any", "object", "SystemInfo"),
    *("Reliability", "Reliability | None", "Handler", "Handler | None", "Control", "Gate"),
    *("Callable[[], bool]", "Sequence[tuple[int, int]]", "Sequence[tuple[int, int, int]]"),
    *("DataSegment", "AddressSegment", "DTypeLike", "Coroutine[Any, Any, Any]"),
    *("AddressSegment | None", "Asked | Sequence[Asked] | None", "Sequence[Asked]"),
    "tuple[Any, ...]",
}

# Calls of things that say or make what anybody may know: they neither move nor show memory.
FREE = {
    *("node", "number", "port", "now_us", "now_ps", "part", "packed", "segment", "remote"),
    *("encode", "operation", "ok", "byte_count", "state", "connected", "attributes", "entries"),
    *("peer", "place", "process_handle", "is_open", "area", "memory", "frames", "scan"),
}
_names = count()


async def _nothing() -> None:
    pass


_OVER = _nothing()
_OVER.close()


class Call(NamedTuple):
    """One public call."""

    world: str
    kind: str  # of what receives it
    name: str
    parameters: dict[str, inspect.Parameter]  # none: it is read, as an attribute is

    def __str__(self) -> str:
        return f"{self.world}: {self.kind}.{self.name}"


def classes() -> Iterator[type]:
    """Every class of the interfaces."""
    for module in pkgutil.walk_packages(nicscope.interfaces.__path__, "nicscope.interfaces."):
        loaded = importlib.import_module(module.name)
        for each in vars(loaded).values():
            if inspect.isclass(each) and each.__module__ == module.name:
                yield each


def is_placed(each: type) -> bool:
    """Whether it is known who holds the objects of that class."""
    if any(each in held for held in HELD.values()) or each in NOT_HELD:
        return True
    private = each.__name__.startswith("_") or issubclass(each, Enum)
    module = each.__module__
    return private or module in NOT_HELD_MODULES or module.startswith(NOT_HELD_ROOMS)


def calls() -> Iterator[Call]:
    """Of everything that programs hold."""
    for world, held in HELD.items():
        for each, kind in held.items():
            for name in sorted(dir(each)):
                if name.startswith("_") or name in ("what", "origin"):
                    continue
                found = inspect.getattr_static(each, name)
                if inspect.isfunction(found):
                    parameters = dict(inspect.signature(found).parameters)
                    parameters.pop("self")
                    yield Call(world, kind, name, parameters)
                elif isinstance(found, property):
                    yield Call(world, kind, name, {})


def kind_of(call: Call, name: str) -> str | None:
    """What a parameter takes that is somebody's, or None."""
    if (call.world, call.name, name) in NUMBERED:
        return "tag"
    return KINDS.get(str(call.parameters[name].annotation))


def is_known(call: Call, name: str) -> bool:
    """Whether it is known what to give for a parameter."""
    annotation = str(call.parameters[name].annotation)
    return annotation in KINDS or annotation in VALUES


def sound(call: Call, name: str, own: dict[str, Any]) -> Any:
    """A good value for a parameter, of the process's own."""
    kind = kind_of(call, name)
    if kind == "segments":
        return [own["segment"]]
    if kind is not None:
        return own[kind]
    return {
        "int": {"node": 1, "destination": 1, "offset": 0, "port": 1, "operation": 1}.get(name, 1),
        "float": 1.0,
        "str": f"name {next(_names)}",
        "bytes": b"content",
        "Any": b"content",
        "Hashable": 32,
        "Coroutine[Any, Any, Any]": _OVER,
        "Handler": None,
        "Handler | None": None,
        "SystemInfo": 1,
        "Gate": Gate(),
        "Callable[[], bool]": lambda: True,
        "Sequence[tuple[int, int]]": [(0, 8)],
        "Sequence[tuple[int, int, int]]": [(0, 8, 1)],
        "AddressSegment": AddressSegment(0, 1),
        "DataSegment": own.get("segment"),
        "Asked | Sequence[Asked] | None": None,
        "Sequence[Asked]": [],
        "tuple[Any, ...]": (32, b"content"),
    }[str(call.parameters[name].annotation)]


def arguments(call: Call, own: dict[str, Any], **given: Any) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of the process's own for what must be given, but for what is ``given``."""
    places: list[Any] = []
    names: dict[str, Any] = {}
    for name, parameter in call.parameters.items():
        needed = parameter.default is parameter.empty
        if name not in given and not needed:
            continue
        value = given[name] if name in given else sound(call, name, own)
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.POSITIONAL_ONLY):
            names[name] = value
        elif parameter.kind is parameter.VAR_POSITIONAL:
            places.append(value)
        else:
            names[name] = value
    if places:  # what comes before them goes by place too
        before = [
            names.pop(name)
            for name, parameter in call.parameters.items()
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and name in names
        ]
        places = before + places
    return places, names


def step(receiver: Any, call: Call, places: list[Any], names: dict[str, Any]) -> Any:
    """Make the call and let it go as far as its first wait; what it asks of its driver then."""
    found = getattr(receiver, call.name)
    if not callable(found):
        return found
    result = found(*places, **names)
    if inspect.iscoroutine(result) or inspect.isgenerator(result):
        try:
            return result.send(None)
        except StopIteration as stop:
            return stop.value
        finally:
            result.close()
    return result


def receivers(world: World, kind: str) -> Any:
    """What of one's own receives a call."""
    return world.own["endpoint"].area if kind == "area" else world.own[kind]
