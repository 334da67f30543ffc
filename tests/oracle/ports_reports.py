"""A finished twin of a world, as lists to compare."""

from collections import deque
from types import SimpleNamespace

from oracle.delivery_records import LOG_FIELDS
from oracle.paging import Frame
from oracle.ports_handles import Handles
from oracle.ports_interrupts import Interrupt, UnetMm
from oracle.ports_records import Descriptor, Port, Process
from oracle.ports_sizes import PAGES
from oracle.ports_translation import Area, Static, Tables
from oracle.ports_utlb import UtlbSecondLevel, UtlbShared
from oracle.ports_worlds import LIBRARIES, TABLES, content

COUNTED = (
    "lookups_send", "lookups_receive", "misses_send", "misses_receive", "lookups_handles",
    "misses_handles", "repeated",
    "pins", "unpins", "interrupts",
)  # fmt: skip
SWAPPING = ("zeroed", "page_ins", "page_outs", "reclaimed")
SCHEMES = {
    "unet": Area,
    "vmmc-static": Static,
    "mini": Handles,
    "vmmc-interrupt": Interrupt,
    "unet-mm-pca200": UnetMm,
    "utlb": UtlbSecondLevel,
    "utlb-shared": UtlbShared,
    "utlb-process": Tables,
}


def told(world, network):
    """Results by process, log, final memory by process, counts by node, and pins."""
    twin = SCHEMES[world.design](world, network)
    processes = []
    for me, program in enumerate(world.programs):
        node = twin.nodes[program.node]
        number = world.number(me)
        node.ports.append(Port(node.number, number + 1, number, dict.fromkeys(range(world.ring))))
        twin.bytes[node.number, number] = bytearray(content(me, world.written))
        twin.map_memory(node, number, PAGES, world.written)
        plan, posted = deque(), 0
        for step in program.steps:
            if step[0] == "register" and world.design not in (*TABLES, *LIBRARIES):
                continue  # nobody pins before the NIC asks
            if step[0] == "inline":
                plan.append(("post", Descriptor(posted, 1, step[1], content=step[2])))
                posted += 1
            elif step[0] == "post":
                plan.append(("post", Descriptor(posted, *step[1:])))
                posted += 1
            else:
                plan.append(step)
        process = Process(number, node.number, number + 1, plan)
        node.processes.append(process)
        processes.append(process)
        for names, key, table in (
            (world.channels, "tag", node.channels),
            (world.exports, "number", node.exports),
            (world.imports, "handle", node.imports),
        ):
            for one in names:
                if one.process == me:
                    owner = {"port": number + 1, "space": number, "cut": None}
                    if table is not node.exports:
                        owner["peer"] = world.peer_of(one)
                    table[getattr(one, key)] = SimpleNamespace(**owner, **one._asdict())
    twin.run()
    log = [tuple(record[name] for name in LOG_FIELDS) for record in twin.log]
    results = [[(time, plain(result)) for time, result in process.results] for process in processes]
    memory = [bytes(twin.bytes[process.node, process.number]) for process in processes]
    counts = [{name: counted[name] for name in COUNTED} for counted in twin.counts]
    pins = [process.pinned for process in processes]
    paging = [in_memory(host) for host in twin.hosts]
    return results, log, memory, counts, sorted(twin.pinned_at_last()), pins, paging


def in_memory(host):
    """Frames of the pages that are in memory, and what the swapper has done."""
    frames = {key: page.place.number for key, page in host.pages.items() if is_there(page)}
    return frames, {name: host.work[name] for name in SWAPPING}


def is_there(page):
    return isinstance(page.place, Frame)


def plain(result):
    if hasattr(result, "__dict__"):
        return tuple(vars(result).values())
    return result
