"""Nodes with VIA interfaces on one network, and programs on them.

async def ping(host: Host) -> None:
    nic = await host.open_nic()
    ...

cluster = Cluster("sonic-via", mechanism="edt")
cluster.start(0, ping)
cluster.run()
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from nicscope.config.platform import load_platform
from nicscope.drivers.coherent.machine import new_machine
from nicscope.drivers.simulate.log import Engine
from nicscope.errors import SimulationError, did_you_mean
from nicscope.interfaces.arguments import LEAST, whole
from nicscope.interfaces.ownership import Owner
from nicscope.interfaces.run_report import Names, RunReport, records_to_keep, report_of, tell
from nicscope.interfaces.via.addresses import AddressSpace
from nicscope.interfaces.via.agent import Agent
from nicscope.interfaces.via.firmware import Firmware
from nicscope.interfaces.via.messaging import Messaging
from nicscope.interfaces.via.names import Return, VipError
from nicscope.interfaces.via.network import Network
from nicscope.interfaces.via.nic import Nic
from nicscope.interfaces.via.observer import Observer, Records, Worker
from nicscope.interfaces.via.port import Port
from nicscope.interfaces.via.report import ViaRun
from nicscope.interfaces.via.settings import read_settings
from nicscope.interfaces.via.translating import Translator
from nicscope.interfaces.via.turns import Turns
from nicscope.interfaces.ways import VI_MSG, Combination, check_runs
from nicscope.nic.coherent.mechanism import NAMES, Mechanism, name_of
from nicscope.nic.vimsg.layout import PAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from pathlib import Path

    from nicscope.interfaces.via.translating import Translation
    from nicscope.interfaces.via.turns import Actor

DELIVERIES = ("store-and-forward", "cut-through")
MOVERS = (Engine.HOST_TX, Engine.HOST_RCV)  # of what is sent, and of what is received
TAGS = 256  # registrations of stretches of host memory, at a time


class Host:
    """What a program is given: its node, on which it may open the NIC."""

    def __init__(self, agent: Agent, number: int) -> None:
        """``number``: of the process on its node."""
        self._agent = agent
        name = f"process {number} of node {self.node}"
        refused = partial(VipError, Return.VIP_INVALID_PARAMETER)
        self._owner = Owner(name, agent.ni.turns, None, refused)

    @property
    def node(self) -> int:
        """Its number."""
        return self._agent.ni.port.number

    async def open_nic(self) -> Nic:
        """The node's NIC (``VipOpenNic``)."""
        self._owner.check_caller()
        await self._agent.call()
        return Nic(self._agent, self._owner)


class Cluster:
    """Nodes on a network without delay."""

    interface = "VIA"

    def __init__(
        self,
        platform: str | Path = "sonic-via",
        mechanism: str | Mechanism = Mechanism.EDT,
        *,
        nodes: int = 2,
        loss: float = 0.0,
        seed: int = 0,
        scattered: bool = False,
        settings: Mapping[str, int] | None = None,
        tags: int = TAGS,
        translation: Translation | None = None,
        delivery: str = "store-and-forward",
    ) -> None:
        """``loss``: share of frames lost, by ``seed``; ``scattered``: see ``AddressSpace``.

        ``settings`` change the platform's costs and the machine's parameters by name;
        ``translation`` puts a translation cache in place of VI-MSG's own two steps;
        ``delivery``: ``cut-through`` moves each fragment as it comes.
        Errors: ``PlatformError``, ``SimulationError`` naming what is wrong.
        """
        if isinstance(mechanism, str):
            if mechanism not in NAMES:
                raise SimulationError(f"no mechanism {mechanism!r}{did_you_mean(mechanism, NAMES)}")
            mechanism = NAMES[mechanism]
        if nodes < 1:
            raise SimulationError(f"a cluster must have at least 1 node, got {nodes!r}")
        priced = load_platform(platform)
        self.settings = read_settings(priced, settings)
        self.mechanism = mechanism
        self._nodes = nodes
        self._tags = tags
        self._scattered = scattered
        self._loss, self._seed = loss, seed
        self._translation = translation
        self._programs: list[tuple[int, Callable[[Host], Coroutine[Any, Any, object]]]] = []
        if delivery not in DELIVERIES:
            raise SimulationError(f"no delivery {delivery!r}{did_you_mean(delivery, DELIVERIES)}")
        self._cut_through = delivery == "cut-through"
        design = None if translation is None else translation.design
        way = name_of(mechanism)
        check_runs(Combination(VI_MSG, priced, way, design, self._cut_through))
        self._has_run = False
        self._make()

    def _make(self) -> None:
        """Everything that a run changes, as it is before the first."""
        host, nic = self.settings.host, self.settings.nic
        self.machine = new_machine(self._nodes, host, nic, tags=self._tags)
        self.machine.agents.watch["mbytes_s"] = self.settings.read_mbytes_s
        self.turns = Turns()
        self.network = Network(self._loss, self._seed)
        self._records = Records(records_to_keep())
        self.translator = None
        if self._translation is not None:
            pages = self._usable() // PAGE
            longest = max(self.settings.max_transfer // PAGE + 2, 4)
            self.translator = Translator(self._translation, self._nodes, pages, longest)
        self.agents = [self._node(n) for n in range(self._nodes)]
        for agent in self.agents:
            agent.asked = [other.own_asked for other in self.agents]
            agent.ni.neighbours = [other.ni for other in self.agents]

    def _node(self, number: int) -> Agent:
        port = Port(self.machine, number, self.mechanism)
        space = AddressSpace(number, self._usable(), scattered=self._scattered)
        firmware = Firmware(self.settings, space.pages, port.memory)
        ni = Messaging(
            self.turns,
            port,
            self.settings,
            self.network,
            space,
            firmware,
            Observer(number, self._records),
            self.translator,
            cut_through=self._cut_through,
        )
        return Agent(ni)

    def _usable(self) -> int:
        """Bytes of a host's memory in whole pages, without its cacheable queues."""
        return int(self.machine.nics.config[0, 0]["queue_address"]) // PAGE * PAGE

    def start(self, node: int, program: Callable[[Host], Coroutine[Any, Any, object]]) -> None:
        """Have ``program`` run on ``node``."""
        where = whole(node, "a node", LEAST)
        if not 0 <= where < len(self.agents):
            raise SimulationError(f"no node {where}; there are {len(self.agents)}")
        self._programs.append((where, program))

    def run(self) -> Sequence[object]:
        """Run all programs to their ends; what they return, in the order of their start.

        A run after another begins anew, at time 0, with the programs that were started since.
        Errors: ``VipError`` that a program does not catch; ``SimulationError`` if all wait.
        """
        if self._has_run:
            self._make()
        self._has_run = True
        for agent in self.agents:
            name = f"NIC {agent.ni.port.number}"
            worker = Worker(agent.ni.observer, Engine.FIRMWARE)
            self.turns.start(agent.ni.serve(), name, worker, serves=True)
            if self._cut_through:
                for engine, what in zip(agent.ni.engines, MOVERS, strict=True):
                    worker = Worker(agent.ni.observer, what)
                    self.turns.start(engine.serve(), name, worker, serves=True)
        programs, self._programs = self._programs, []
        actors: list[Actor] = []
        hosts: list[Host] = []
        for node, program in programs:
            number = sum(host.node == node for host in hosts)
            host = Host(self.agents[node], number)
            hosts.append(host)
            observer = self.agents[node].ni.observer
            observer.programs += 1
            worker = Worker(observer, Engine.CPU, len(actors))
            actors.append(self.turns.start(program(host), host._owner.name, worker))
            host._owner.act_as(actors[-1])
        try:
            self.turns.run()
        finally:
            for host in hosts:
                host._owner.is_over = True
        tell(self._source())
        return [actor.result for actor in actors]

    def report(self) -> RunReport:
        """What the run has cost, node by node; errors: before there was one."""
        if not self._has_run:
            raise SimulationError("nothing has run yet; call run() first")
        return report_of(self._source())

    def _source(self) -> ViaRun:
        names = Names(
            interface=self.interface,
            design=None if self._translation is None else self._translation.design.name,
            way=name_of(self.mechanism),
            delivery=DELIVERIES[self._cut_through],
            platform=self.settings.platform,
        )
        nodes = [agent.ni for agent in self.agents]
        return ViaRun(nodes, self._records, self.translator, names)
