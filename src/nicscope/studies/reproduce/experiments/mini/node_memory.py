"""miNI V.A: the NIC memory of running nodes, with static tables and with handle lookup."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from nicscope.config.design import load_design, with_settings
from nicscope.drivers.simulate.ports.build import HostSize, PortSize
from nicscope.errors import SimulationError
from nicscope.interfaces.mini.cluster import Cluster
from nicscope.interfaces.mini.memory import LOOKUP, nic_structures, total_by_group
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from nicscope.config.design import Design
    from nicscope.interfaces.mini.endpoint import Endpoint
    from nicscope.studies.reproduce.verdict import Item

KB = 1024
PAGE = 4096
FEW, MANY = 10, 10_000  # buffers
SMALL, LARGE = 2**20, 64 * 2**20  # bytes of communication memory
SPACE = 2**14 + 1024  # pages


def run(item: Item) -> Outcome:
    """Run a node of either kind, and dynamic ones with much more to look up."""
    low, high = item.printed["code_kbytes"]
    code = (low + high) / 2 * KB
    dynamic, static = _running("mini"), _running("vmmc-static")
    before, after = (_total(cluster, LOOKUP) for cluster in (static, dynamic))
    outcome = Outcome()
    outcome.point("lookup_reduction", "percent", 100 * (1 - after / before))
    whole = [_total(cluster) + code for cluster in (static, dynamic)]
    outcome.shape(
        "total-shrinks",
        whole[1] <= whole[0] * 2 / 3,
        f"{whole[0] / KB:.0f} to {whole[1] / KB:.0f} KB, {code / KB:.0f} of it code; "
        f"lookups {before / KB:.0f} to {after / KB:.0f} KB",
    )
    _growth(outcome)
    _wholeness(outcome, (static, dynamic))
    return outcome


def _growth(outcome: Outcome) -> None:
    sizes = {}
    for buffers, byte_count in ((FEW, SMALL), (MANY, SMALL), (FEW, LARGE)):
        cluster = _running("mini", buffers, byte_count)
        sizes[f"{buffers} buffers, {byte_count // 2**20} MB"] = _total(cluster)
    refused = _refusal(FEW, LARGE + SMALL)
    outcome.shape(
        "independent-of-buffers",
        len(set(sizes.values())) == 1 and refused is not None,
        "; ".join(f"{name}: {size / KB:.0f} KB" for name, size in sizes.items())
        + f"; a static table of {LARGE // PAGE} pages: {refused or 'took them'}",
    )


def _refusal(buffers: int, byte_count: int) -> str | None:
    """What a static table says that has room for ``LARGE`` bytes."""
    design = with_settings(load_design("vmmc-static"), [f"entries={LARGE // PAGE}"])
    try:
        _running(design, buffers, byte_count)
    except SimulationError as refused:
        return str(refused)
    return None


def _wholeness(outcome: Outcome, clusters: tuple[Cluster, ...]) -> None:
    """The groups add up to the structures, and no two of these share a byte."""
    overlaps, off, many = 0, 0, 0
    for cluster in clusters:
        assert cluster.simulation is not None
        machine = cluster.simulation.machine
        found = nic_structures(machine, 0)
        many += len(found)
        off += sum(each.byte_count for each in found.values()) - _total(cluster)
        spans = sorted(
            (array.ctypes.data, array.ctypes.data + array.nbytes)
            for each in found.values()
            for array in each.arrays
        )
        overlaps += sum(first[1] > second[0] for first, second in pairwise(spans))
    outcome.shape(
        "account-is-whole",
        off == 0 and overlaps == 0,
        f"{many} structures of two nodes: {overlaps} overlaps, {off} bytes unaccounted for",
    )


def _total(cluster: Cluster, group: str | None = None) -> int:
    assert cluster.simulation is not None
    totals = total_by_group(cluster.simulation.machine, 0)
    return sum(totals.values()) if group is None else totals[group]


def _running(design: str | Design, buffers: int = FEW, byte_count: int = SMALL) -> Cluster:
    """A cluster that has used ``buffers`` buffers of ``byte_count`` bytes in all."""
    room = max(4096, buffers)
    cluster = Cluster(
        design,
        host=HostSize(frames=-(-byte_count // PAGE) + 1024, pages_per_space=SPACE),
        size=PortSize(exports=room, imports=room),
    )

    async def owner(end: Endpoint) -> None:
        arena = end.allocate(byte_count)
        each = byte_count // buffers
        for i in range(buffers):
            await end.register(arena.part(i * each, each), name=f"buffer {i}")
        await end.stored()

    async def guest(end: Endpoint) -> None:
        own = end.allocate(16)
        last = await end.open(await end.find(f"buffer {buffers - 1}", 1000.0))
        await end.write(last, own)
        await end.done()

    cluster.start(0, owner)
    cluster.start(1, guest)
    cluster.run()
    return cluster
