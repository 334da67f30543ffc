"""Nodes with VIA interfaces on one network, and programs on them.

async def ping(host: Host) -> None:
    nic = await host.open_nic()
    ...

cluster = Cluster(mechanism="edt")
cluster.start(0, ping)
cluster.run()
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from nicscope.config.delivery import MESSAGE_STORE_AND_FORWARD, POLICIES, Transport, Way
from nicscope.config.design import chosen_design
from nicscope.config.platform import load_platform
from nicscope.config.program_costs import MIDDLE
from nicscope.drivers.simulate.ports.build import Faults, HostSize, PortSize
from nicscope.errors import SimulationError, did_you_mean
from nicscope.interfaces.arguments import a_share, node_count, whole
from nicscope.interfaces.options import UnseededSettings, spelt_out
from nicscope.interfaces.ports.cluster import PAGE_SIZE, PortCluster
from nicscope.interfaces.programs import called
from nicscope.interfaces.via.completions import STATUSES
from nicscope.interfaces.via.host import Host
from nicscope.interfaces.via.host_names import names_of
from nicscope.interfaces.via.kernel import QUEUES_OF_PROCESS, Kernel
from nicscope.interfaces.via.process import Process
from nicscope.interfaces.via.settings import falling_back, is_postponed, settings_of
from nicscope.interfaces.ways import Combination, check_runs
from nicscope.nic.coherent.mechanism import NAMES, Mechanism
from nicscope.nic.ports.layout import REPORT
from nicscope.telling import ToldPlainly

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from fractions import Fraction

    from nicscope.config.delivery import Delivery
    from nicscope.config.design import Design
    from nicscope.config.platform import Platform
    from nicscope.drivers.simulate.ports.build import Setup
    from nicscope.drivers.simulate.programs import Simulation
    from nicscope.fabric.topology import Topology
    from nicscope.interfaces.via.settings import Settings

DELIVERIES = ("store-and-forward", "cut-through", MESSAGE_STORE_AND_FORWARD)
MESSAGE_BUFFERS = 64  # of packets, each way, at most: as many as the rings have entries
NEEDED = ("segments", "receives", "regions", "entries", "connections")  # of a ``PortSize``
PAGES_PER_SPACE = 2048
CONNECTIONS = 1024  # of a node, ever
MOST_VIS = 1 << 20  # of a node
ACK_DELAY_PS = 20_000_000


class Cluster(PortCluster[Process]):
    """Hosts on one switch whose NICs serve VIs."""

    interface = "VIA"
    statuses = STATUSES
    given = "host"
    process_type = Process

    @spelt_out(UnseededSettings)
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
        if a_share(loss, "loss") == 1:
            raise SimulationError("loss must be less than 1: nothing would ever arrive")
        for name in NEEDED if isinstance(size, PortSize) else ():
            if getattr(size, name) < 1:
                raise SimulationError(f"VIs need a size with {name} of at least 1 (PortSize)")
        priced = load_platform(platform) if isinstance(platform, str | Path) else platform
        check_runs(Combination("VIA", priced, Way(mechanism)))
        self.settings = settings_of(priced, settings)
        self.mechanism: Mechanism | None = NAMES.get(Way(mechanism))
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
            falling_back(self.settings) if self.postpones else self.settings.platform,
            nodes=nodes,
            policy=_delivered(delivery, self.settings),
            topology=topology,
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
        self._kernels: list[Kernel] = []

    @property
    def kernels(self) -> list[Kernel]:
        """By node; there once ``run`` has begun."""
        return self._kernels

    def _called(
        self, program: Callable[[Any], Coroutine[Any, Any, object]], given: Process
    ) -> Coroutine[Any, Any, object]:
        made = called(program, Host(given))
        play: Any = _play(made, given)
        own: Any = made
        play.__name__, given._driven.code = own.__name__, own.cr_code
        coroutine: Coroutine[Any, Any, object] = play
        return coroutine

    @ToldPlainly()
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
        self._kernels = [
            Kernel(simulation.machine, node, count, self.postpones)
            for node, count in enumerate(processes)
        ]
        return simulation


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


async def _play(program: Coroutine[Any, Any, object], process: Process) -> object:
    """Run a program on its process to the end of what it asked for last."""
    result = await program
    await process.settle()
    return result
