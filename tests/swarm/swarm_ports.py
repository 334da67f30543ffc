"""What swarms on U-Net, VMMC and miNI share: clusters, hostile neighbours, and the last account."""

import msgspec
import numpy as np
from swarm_rules import PAGE, SECRET, RuleError, must_be

from nicscope.clock import NEVER
from nicscope.config.design import Scheme, load_design
from nicscope.drivers.simulate.ports.build import HostSize, PortSize
from nicscope.drivers.simulate.ports.posting import PREPARED
from nicscope.drivers.simulate.records import POST
from nicscope.errors import SimulationError
from nicscope.nic.ports.layout import NOBODY

ODD = (
    0,
    1,
    2,
    3,
    31,
    32,
    33,
    63,
    64,
    4095,
    4096,
    8192,
    2**20,
    2**31,
    2**62,
    2**63 - 1,
    -1,
    -(2**63),
)
TINY = {
    "vmmc-interrupt": {"entries": 4, "ways": 2},
    "unet-mm-pca200": {"entries": 4, "victim_entries": 2},
    "mini": {"entries": 8, "line": 2, "ways": 2},
    "utlb": {"entries": 2, "ways": 1},
    "utlb-shared": {"entries": 2, "ways": 1},
}
ONE = {
    "vmmc-interrupt": {"entries": 1, "ways": 1},
    "utlb": {"entries": 1, "ways": 1},
    "utlb-shared": {"entries": 1, "ways": 1},
}


def design_of(chance, name):
    """A design, some of the time with a cache of next to nothing, or of one entry."""
    sizes = chance.one_of({}, TINY.get(name, {}), ONE.get(name, {}))
    return msgspec.structs.replace(load_design(name), **sizes)


def host_of(chance, pages):
    """Memory for ``pages`` pages of a node's processes: plenty, or so little that they swap."""
    frames = chance.one_of(4 * pages, pages + pages // 2)
    return HostSize(frames=frames, pages_per_space=128, swap_blocks=8 * pages)


def size_of(chance, rows):
    """Queues long and short; tables of ``rows`` rows or more."""
    return PortSize(
        ring=chance.one_of(8, 16, 64),
        ready=chance.one_of(2, 16),
        channels=chance.one_of(rows, 64),
        exports=chance.one_of(rows, 64),
        imports=chance.one_of(rows, 64),
        longest=128,
        events=chance.one_of(2, 256),
    )


class Bazaar:
    """Where honest and hostile processes show what they have; taking it does nobody any good."""

    def __init__(self):
        self.things = []  # whose, what

    def show(self, owner, *things):
        """Let others try."""
        self.things += [(owner, thing) for thing in things]

    def foreign(self, chance, me, kind):
        """Something of that kind that is another's."""
        found = [
            thing for owner, thing in self.things if owner is not me and isinstance(thing, kind)
        ]
        return chance.sample(found) if found else None


def forge(chance, process, port):
    """Write anything into a descriptor of one's own queue, as a process can at any time."""
    ports = process._ports
    slot = int(ports.table[process.node, port]["posted"]) % int(ports.rules[0]["ring"])
    request = ports.requests[process.node, port, slot]
    for name in request.dtype.names:
        request[name] = chance.one_of(*ODD)
    request["operation"] = chance.one_of(1, 2, 3, *ODD)
    request["segments"] = chance.upto(5)
    request["options"] = chance.upto(3)
    request["name"] = chance.one_of(*range(8), *ODD)
    for segment in ports.segments[process.node, port, slot]:
        segment["address"] = chance.one_of(chance.upto(40 * PAGE), *ODD)
        segment["length"] = chance.one_of(chance.upto(3 * PAGE), *ODD)


async def post_forged(chance, process, port, count):
    """Post forged descriptors; each ends with a status."""
    for _ in range(count):
        forge(chance, process, port)
        await process._sim_process.ask(POST, peer=port, own=PREPARED | process._mapped[port])
    for _ in range(count):
        status = (await process.done(port=port)).status
        must_be(isinstance(status, str), "a status")
    return count


async def attempt(call):
    """Await what a library must refuse; whether it did.  What it takes is a foreign object."""
    try:
        await call
    except SimulationError:
        return True
    raise RuleError("a foreign object was taken")


def no_secret_in(process, *, pages=40):
    """Nothing of what is honest and private has come to this process's memory."""
    memory = process._memory
    for page in range(pages):
        try:
            held = memory.read(process.node, process.number, page * PAGE, PAGE)
        except SimulationError:
            return
        must_be(SECRET not in held, "a secret is in page", page, "of", process._owner.name)


def settled(cluster, dead):
    """After all is closed: nothing in use, nothing pinned, no stale DMA, and accounts add up."""
    machine = cluster.simulation.machine
    ports = machine.ports
    must_be(int(ports.nodes["stale"].sum()) == 0, "stale DMA")
    scheme = cluster.design.scheme
    for node in range(cluster.topology.nodes):
        if node in dead:
            continue
        account = {
            "pending": int(ports.pending[node]["busy"].sum()),
            "held": int(np.abs(ports.translations.host.pinning.held[node]).sum()),
            "in use": int(np.abs(ports.translations.host.in_use[node]).sum()),
            "exports": int(ports.shared.exports[node]["valid"].sum()),
            "imports": int((ports.shared.imports[node]["port"] != NOBODY).sum()),
            "open": int(ports.table[node, 1:]["open"].sum()),
            "filling": int(ports.table[node]["filling"].sum()),
            "cuts": int(ports.nodes[node]["cuts"]),
        }
        left = {name: count for name, count in account.items() if count}
        must_be(not left, "left at node", node, left)
        counts = cluster.counts(node)
        pinned = int(ports.memory.hosts[node]["pinned"])
        counted = (counts["pins"] or 0) - (counts["unpins"] or 0)
        if scheme is Scheme.HANDLE:  # which counts lines, unmapped pages and all
            must_be(pinned <= counted, pinned, "pinned, counted", counted)
        elif scheme is not Scheme.PINNED:
            must_be(pinned == counted, pinned, "pinned, counted", counted)
        if scheme not in (Scheme.STATIC, Scheme.HANDLE):  # which keep theirs
            must_be(pinned == 0, pinned, "pages pinned at node", node)
    for name in ("cpu_busy", "processor_busy", "pci_busy", "link_busy"):
        busy = int(machine.nodes[name].max())
        must_be(0 <= busy <= int(machine.tally[0]["now"]), name, busy)


def dead_nodes(cluster):
    """Nodes that have died by the end."""
    deaths = cluster.simulation.machine.ports.deaths.nodes
    now = cluster.simulation.now
    return {node for node, when in enumerate(deaths.tolist()) if when < NEVER and when <= now}
