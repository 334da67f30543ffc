"""Runs a program in one process of each node, over any interface, connected with its peers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.apps.collectives.operations import Barrier, Messages
from nicscope.errors import SimulationError, StandingError, did_you_mean
from nicscope.interfaces import Cluster, Design, Faults, HostSize, PortSize

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from nicscope.apps.collectives.mailbox import Wire

DESIGNS = {"unet": "unet-mm-pca200", "vmmc": "utlb", "mini": "mini", "via": "via-static"}
PAGE = 4096
PS_PER_US = 1_000_000
INTERFACES = ("unet", "vmmc", "mini", "via", "trapeze")
OWN_PAGES = 96  # of a process beside its arrays, and for each peer:
PAGES_OF_PEER = 16
LINE = 128  # pages, the longest line of a NIC's cache: an address space has whole ones
RING = 256  # reports that a process has not read; fewer where few nodes talk
FEW = 4

# A VI's own time-out of 100 us is too short where several peers send 1 MB at once: connections were
# lost.  These are the other interfaces' (``Transport``), assumed as they are.
VIA_SETTINGS = {"retry_timeout": 1_000_000_000, "retries": 12}


class Machine(NamedTuple):
    """The nodes that programs run on, as of ``Cluster``; None is the interface's default."""

    interface: str
    design: str | Design | None = None
    platform: str | None = None
    way: str | None = None
    faults: Faults | None = None

    def cluster(self, ranks: int, memory_bytes: int) -> Any:
        """A cluster for so many processes, each allocating at most that much memory.

        Errors: as of ``Cluster``, and for an interface that there is not.
        """
        if self.interface not in INTERFACES:
            raise SimulationError(
                f"no interface {self.interface!r}{did_you_mean(self.interface, INTERFACES)}"
            )
        pages = -(-memory_bytes // PAGE) + OWN_PAGES + PAGES_OF_PEER * ranks
        pages = -(-pages // LINE) * LINE
        options: dict[str, Any] = {"nodes": max(2, ranks)}
        named = {"platform": self.platform, "way": self.way, "faults": self.faults}
        options |= {name: value for name, value in named.items() if value is not None}
        if self.interface == "trapeze":
            if self.design is not None:
                raise SimulationError(
                    "Trapeze has no designs: it translates nothing on its NIC; leave the design out"
                )
            return Cluster("trapeze", **options, host_bytes=(pages + OWN_PAGES) * PAGE)
        options["host"] = HostSize(frames=2 * pages, pages_per_space=pages)
        if self.interface == "via":
            options["settings"] = VIA_SETTINGS
        else:
            ring = RING if ranks > FEW else PortSize().ring
            options["size"] = PortSize(longest=pages, ring=ring)
        return Cluster(self.design or DESIGNS[self.interface], interface=self.interface, **options)

    def wire(self, given: Any, ranks: int, cluster: Any) -> Wire:
        """The wire of a program that is called with ``given``."""
        if self.interface in ("vmmc", "mini"):
            from nicscope.apps.collectives.mailbox import MiniWire, VmmcWire

            return VmmcWire(given, ranks) if self.interface == "vmmc" else MiniWire(given, ranks)
        if self.interface == "via":
            from nicscope.apps.collectives.via_wire import ViaWire

            return ViaWire(given, ranks, given.node)
        from nicscope.apps.collectives.message_wires import TrapezeWire, UNetWire

        if self.interface == "unet":
            return UNetWire(given, ranks)
        is_lossy = self.faults is not None and self.faults.any
        return TrapezeWire(given, ranks, cluster.delivery.max_payload, is_lossy=is_lossy)


class Party(NamedTuple):
    """One process of a parallel run."""

    wire: Wire
    messages: Messages
    barrier: Barrier
    cluster: Any

    @property
    def rank(self) -> int:
        """The process's rank, which is its node's number."""
        return self.wire.rank

    @property
    def ranks(self) -> int:
        """The number of processes."""
        return self.wire.ranks


def run_ranks(
    machine: Machine,
    ranks: int,
    memory_bytes: int,
    body: Callable[[Party], Coroutine[Any, Any, object]],
) -> tuple[list[Any], Any]:
    """Run ``body`` in ``ranks`` processes, one on each node; their results, and the cluster.

    ``memory_bytes``: what each allocates at most.
    Errors: ``SimulationError`` for fewer than one, and for what does not get through.
    """
    if ranks < 1:
        raise SimulationError(f"a collective has at least 1 process, got {ranks}")
    cluster = machine.cluster(ranks, memory_bytes)

    async def process(given: Any) -> object:
        wire = machine.wire(given, ranks, cluster)
        await wire.open()
        messages = Messages(wire)
        party = Party(wire, messages, Barrier(messages), cluster)
        result = await body(party)
        await party.barrier.meet()
        await wire.close()
        return result

    for rank in range(ranks):
        cluster.start(rank, process)
    try:
        return list(cluster.run()), cluster
    except StandingError as error:
        raise _deadlock_text(machine, cluster, error) from None


def _deadlock_text(machine: Machine, cluster: Any, error: StandingError) -> SimulationError:
    """One line for a deadlocked run, naming the dead nodes."""
    now = cluster.simulation.now
    faults = machine.faults or Faults()
    dead = [
        f"{what} {number} died at {when / PS_PER_US:,.0f} us"
        for what, deaths in (("node", faults.node_deaths), ("link", faults.link_deaths))
        for number, when in sorted(deaths.items())
        if when <= now
    ]
    why = "; ".join(dead) if dead else error.said
    return SimulationError(
        f"the processes wait for what does not come, after {now / PS_PER_US:,.0f} us: {why}"
    )
