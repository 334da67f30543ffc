"""Nodes with VIA interfaces on one network: their machine, and the programs on them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from nicscope.config.costs import COSTS, Evidence, Origin, UnitCost
from nicscope.config.design import (
    MESSAGE_STORE_AND_FORWARD,
    POLICIES,
    Scheme,
    Transport,
    Way,
    chosen_design,
)
from nicscope.config.platform import MACHINE, MIDDLE, OF_VIA, VIA_COSTS, load_platform
from nicscope.drivers.simulate.bus.state import ON_NIC, machine_parameters, word_of
from nicscope.drivers.simulate.ports.build import Faults, HostSize, PortSize, Setup
from nicscope.errors import SimulationError, did_you_mean
from nicscope.interfaces.arguments import (
    UnseededSettings,
    a_fraction,
    node_count,
    whole,
    with_named_options,
)
from nicscope.interfaces.ports.cluster import PAGE_SIZE
from nicscope.interfaces.programs import called
from nicscope.interfaces.via.agent import Agent, Nodes, Process, Settings
from nicscope.interfaces.via.library import Nic
from nicscope.interfaces.via.vi import QUEUES_OF_PROCESS, Kernel
from nicscope.interfaces.via.work import STATUSES
from nicscope.interfaces.ways import Combination, check_runs
from nicscope.memory.coherence.layout import host_settings
from nicscope.nic.coherent import FALL_BACK, NAMES, nic_settings
from nicscope.nic.ports.layout import REPORT
from nicscope.nic.transport import MOST_WINDOW
from nicscope.tracebacks import TrimmedTraceback

if TYPE_CHECKING:
    from fractions import Fraction

    from nicscope.config.design import Delivery, Design
    from nicscope.config.platform import Parameter, Platform
    from nicscope.drivers.simulate.process import Simulation
    from nicscope.fabric.topology import Topology

PAGE = 4096
AT_LEAST_1 = ("mtu", "max_transfer", *VIA_COSTS)


def settings_of(platform: Platform, changes: Mapping[str, int] | None = None) -> Settings:
    """Apply ``changes`` by name, times in ps, to a platform; of a table of costs for each page.

    The platform states all that VIA takes.  Errors: ``SimulationError`` for an unknown name, or a
    value that makes no machine.
    """
    changed = platform
    for name, value in (changes or {}).items():
        changed = _changed(changed, name, value)
    host, nic = machine_parameters(changed)
    own = {name: changed.machine[name].value for name in OF_VIA}
    own |= {name: changed.costs[name].high_ps for name in VIA_COSTS}
    for name in AT_LEAST_1:
        if own[name] < 1:
            raise SimulationError(f"{name} must be at least 1, got {own[name]!r}")
    if not 1 <= own["window"] <= MOST_WINDOW:
        raise SimulationError(
            f"window must be from 1 to {MOST_WINDOW} frames, got {own['window']!r}"
        )
    if own["max_transfer"] + PAGE > nic["staging_bytes"] // 2:
        raise SimulationError(
            f"half of staging_bytes, {nic['staging_bytes']}, must hold max_transfer, "
            f"{own['max_transfer']}, and {PAGE} bytes more; give more or transfer less"
        )
    try:
        host_settings(host)
        nic_settings(nic)
    except ValueError as error:
        raise SimulationError(str(error)) from None
    return Settings(changed, host, nic, **own)


def is_postponed(settings: Settings, design: Design) -> bool:
    """Whether registration is postponed while the NIC has no room (``when_full`` 2).

    Errors: ``SimulationError`` where no room is ever given back.
    """
    if design.way != Way.EDT or settings.nic["when_full"] == FALL_BACK:
        return False
    if design.scheme is not Scheme.STATIC:
        raise SimulationError(
            f"when_full 2 waits until memory is deregistered, and {design.name} keeps that pinned; "
            "via-static does not"
        )
    return True


def with_fallback(settings: Settings) -> Platform:
    """The platform with ``when_full`` set to fall back: transfers bypass a full NIC memory."""
    return _changed(settings.platform, "when_full", FALL_BACK)


def _changed(platform: Platform, name: str, value: int) -> Platform:
    """The platform with another value for one of its costs or parameters."""
    word = name if name in platform.machine or name in platform.costs else _on_nic(name)
    if word not in platform.machine and word not in platform.costs:
        known = {*platform.costs, *platform.machine}
        raise SimulationError(f"no setting {name!r}{did_you_mean(name, known)}")
    if value < 0:
        raise SimulationError(f"{name} must not be negative")
    if word in MACHINE:
        machine = platform.machine | {word: _parameter(platform.machine[word], value)}
        return msgspec.structs.replace(platform, machine=machine)
    return msgspec.structs.replace(
        platform, costs=platform.costs | {word: _cost(platform.costs[word], value)}
    )


def _on_nic(name: str) -> str:
    """The word of a parameter of the interface, which may be said to be that, or not."""
    return word_of(name.removeprefix(ON_NIC))


def _cost(stated: UnitCost, ps: int) -> UnitCost:
    origin = Origin(Evidence.ASSUMED, f"settings: {stated.name}")
    if COSTS[stated.name].size_of is not None:
        points = (1, ps), (2, 2 * ps)
        return msgspec.structs.replace(stated, origin=origin, points=points)
    return msgspec.structs.replace(stated, origin=origin, low_ps=ps, high_ps=ps)


def _parameter(stated: Parameter, value: int) -> Parameter:
    origin = Origin(Evidence.ASSUMED, f"settings: {stated.name}")
    return msgspec.structs.replace(stated, value=value, origin=origin)


class Host:
    """A host as one of its processes sees it."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._agent = Agent(process)

    def __repr__(self) -> str:
        return f"<Host of {self._process._owner.place}, VIA>"

    @property
    def node(self) -> int:
        """The host's node number."""
        return self._process.node

    async def open_nic(self) -> Nic:
        """The node's NIC (``VipOpenNic``)."""
        self._process._owner.check_caller()
        await self._agent.call()
        self._agent.opened += 1
        return Nic(self._agent)


DELIVERIES = ("store-and-forward", "cut-through", MESSAGE_STORE_AND_FORWARD)
MESSAGE_BUFFERS = 64  # of packets, each way, at most: as many as the rings have entries
NEEDED = ("segments", "receives", "regions", "entries", "connections")  # of a ``PortSize``
PAGES_PER_SPACE = 2048
CONNECTIONS = 1024  # of a node, ever
MOST_VIS = 1 << 20  # of a node
ACK_DELAY_PS = 20_000_000


class Cluster(Nodes):
    """Hosts with VIA NICs on one switch."""

    interface = "VIA"
    statuses = STATUSES
    given = "host"
    process_type = Process

    @with_named_options(UnseededSettings)
    def __init__(
        self,
        platform: str | Path | Platform = "sonic-via-utlb",
        mechanism: str | Way | None = None,
        *,
        design: str | Path | Design = "via-static",
        nodes: int = 2,
        vis: int = 64,
        queues: int = 16,
        names: Mapping[str, int | Sequence[int]] | None = None,
        loss: float = 0.0,
        seed: int = 0,
        settings: Mapping[str, int] | None = None,
        delivery: str | Delivery = "store-and-forward",
        topology: Topology | None = None,
        delay: str | None = None,
        transport: str | Transport | None = None,
        faults: Faults | None = None,
        host: HostSize | None = None,
        size: PortSize | None = None,
        keep_log: int = 0,
        place: Fraction = MIDDLE,
        **others: Unpack[UnseededSettings],
    ) -> None:
        """``mechanism``, or ``way``: into the NIC, by default edt; a node's ``vis`` and ``queues``.

        ``names``: nodes by name, for VIPL's name service; by default ``node0``, ``node1``, ...
        ``loss``, the share of packets lost by ``seed``, or all that goes wrong: ``faults``.
        ``settings`` change the platform's costs and the machine's parameters by name, ``others``
        the settings of ``design``; ``transport``: by default as the platform's costs have it.
        Errors: ``PlatformError``, ``SimulationError`` naming what is wrong.
        """
        ways = [way.value for way in Way]
        mechanism = others.pop("way", mechanism) or Way.EDT
        if mechanism not in ways:
            raise SimulationError(f"no mechanism {mechanism!r}{did_you_mean(mechanism, ways)}")
        node_count(nodes)
        if isinstance(delivery, str) and delivery not in DELIVERIES:
            raise SimulationError(f"no delivery {delivery!r}{did_you_mean(delivery, DELIVERIES)}")
        if a_fraction(loss, "loss") == 1:
            raise SimulationError("loss must be less than 1: nothing would ever arrive")
        for name in NEEDED if isinstance(size, PortSize) else ():
            if getattr(size, name) < 1:
                raise SimulationError(f"VIs need a size with {name} of at least 1 (PortSize)")
        priced = load_platform(platform) if isinstance(platform, str | Path) else platform
        check_runs(Combination("VIA", priced, Way(mechanism)))
        self.settings = settings_of(priced, settings)
        self.mechanism = NAMES.get(Way(mechanism))
        self.transport = Transport(
            window=self.settings.window,
            time_out_ps=self.settings.retry_timeout,
            most_retries=self.settings.retries,
            ack_delay_ps=min(ACK_DELAY_PS, self.settings.retry_timeout // 5),
        )
        self._queues = whole(queues, "queues", 0, MOST_VIS)
        self._vis = whole(vis, "vis", 0, MOST_VIS)
        way = chosen_design(design, {**others, "way": Way(mechanism).value})
        self.postpones = is_postponed(self.settings, way)
        frames = self.settings.host["memory_bytes"] // PAGE_SIZE
        super().__init__(
            way,
            with_fallback(self.settings) if self.postpones else self.settings.platform,
            nodes=nodes,
            policy=_delivered(delivery, self.settings),
            topology=topology,
            delay=delay,
            transport=self.transport if transport is None else transport,
            faults=faults or Faults(loss=loss, seed=seed),
            host=host or HostSize(frames=frames, pages_per_space=PAGES_PER_SPACE),
            size=size
            or PortSize(
                segments=8,
                receives=64,
                regions=256,
                entries=256,
                longest=PAGES_PER_SPACE,
                connections=CONNECTIONS,
            ),
            keep_log=keep_log,
            place=place,
        )
        self.names = names_of(names, self.topology.nodes)
        self.kernels = []

    def _called(
        self, program: Callable[[Any], Coroutine[Any, Any, object]], given: Process
    ) -> Coroutine[Any, Any, object]:
        made = called(program, Host(given))
        play: Any = given.play(made)
        own: Any = made
        play.__name__, given._sim_process.code = own.__name__, own.cr_code
        coroutine: Coroutine[Any, Any, object] = play
        return coroutine

    @TrimmedTraceback()
    def start(  # type: ignore[override]
        self,
        node: int,
        program: Callable[[Host], Coroutine[Any, Any, object]],
        *,
        daemon: bool = False,
        tasks: int = 0,
    ) -> None:
        """Have ``program`` run on ``node``; see ``Programs.start``."""
        super().start(node, program, daemon=daemon, tasks=tasks)  # type: ignore[arg-type]

    @property
    def _wide_delivery(self) -> Delivery:
        """Where a message waits for its last packet, packets hold a frame, so that many have room.

        No packet of a VI is longer than that.
        """
        return self.delivery if self.delivery.by_message else super()._wide_delivery

    def _setup(self, processes: Sequence[int], links: int) -> Setup:
        most = max(processes)
        # Each process has a port and two completion queues of its own beside those of VIs.
        self._ports = most + self._vis
        self.size = msgspec.structs.replace(
            self.size,
            queues=QUEUES_OF_PROCESS * most + self._queues,
            channels=max(self.size.channels, self._ports + 1),
        )
        return super()._setup(processes, links)

    def _simulation(self, hosts: Sequence[int], processes: Sequence[int]) -> Simulation:
        simulation = super()._simulation(hosts, processes)
        if self.way != Way.PCI:
            agents = simulation.machine.bus.ways.agents
            agents.watch["mbytes_s"] = self.settings.read_mbytes_s
        self.kernels = [
            Kernel(simulation.machine, node, count, self.postpones)
            for node, count in enumerate(processes)
        ]
        return simulation


def names_of(
    given: Mapping[str, int | Sequence[int]] | None, nodes: int
) -> dict[str, tuple[int, ...]]:
    """Nodes of each host name, in order.  Errors: ``SimulationError`` for what is no node."""
    if given is None:
        return {f"node{node}": (node,) for node in range(nodes)}
    if not isinstance(given, Mapping):
        raise SimulationError(f"names: {{'server': 0, ...}} is needed, not {given!r:.60}")
    names = {}
    for name, meant in given.items():
        each = (meant,) if isinstance(meant, int) else tuple(meant)
        for node in each:
            if type(node) is not int or not 0 <= node < nodes:
                raise SimulationError(
                    f"names: {name!r} is node {node!r}, but nodes are 0 to {nodes - 1}"
                )
        if not name or not each:
            raise SimulationError(f"names: {name!r} needs letters, and at least one node")
        names[name] = each
    return names


def _delivered(given: str | Delivery, settings: Settings) -> Delivery:
    """That delivery; where it is by message, with buffers for messages in half of staging each."""
    chosen = POLICIES[given] if isinstance(given, str) else given
    if not chosen.by_message:
        return chosen
    block = settings.host["l2_line"]
    payload = min(-(-settings.mtu // block) * block, PAGE_SIZE)
    own = REPORT.itemsize
    room = (settings.nic["staging_bytes"] - own) // (2 * payload)
    buffers = max(1, min(MESSAGE_BUFFERS, room))
    return msgspec.structs.replace(
        chosen, max_payload=payload, send_buffers=buffers, receive_buffers=buffers
    )
