"""miNI II, V.A and Figure 3: NIC memory of static tables and of handle lookup."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

from nicscope.config.design import load_design, with_settings
from nicscope.drivers.simulate.ports.build import HostSize
from nicscope.errors import SimulationError
from nicscope.interfaces.mini.cluster import Cluster
from nicscope.interfaces.mini.memory import LOOKUP, nic_structures, total_by_group
from nicscope.studies.reproduce.experiments.utlb import requests_at

if TYPE_CHECKING:
    from nicscope.config.design import Design
    from nicscope.interfaces.mini.endpoint import Endpoint
    from nicscope.studies.reproduce.verdict import Item, Outcome


def nic_memory_bytes(design: Design) -> dict[str, int]:
    """Bytes per structure on the NIC of a node with one process."""
    from nicscope.drivers.replay import replay

    one_page = requests_at(nodes=[0], pids=[0], pages=[0], page_counts=[1])
    (result,) = replay([one_page], [design], kinds=False)
    return dict(result.nic_memory_bytes)


def listed(memory: dict[str, int]) -> str:
    """The structures and their bytes, in one line."""
    return ", ".join(f"{name} {size}" for name, size in memory.items())


TABLES = (2**15, 2**16)  # two tables: their difference is what entries alone take
PAGE = 4096  # bytes
MB = 2**20


def extrapolation(outcome: Outcome, item: Item) -> None:
    """MiNI II and V.A: a static table for 64 GB of host memory, from what ours takes per page.

    Extend the bytes per entry of our static table to every page of the host memory.
    """
    printed = item.printed
    small, large = (_table_bytes(entries) for entries in TABLES)
    per_entry = Fraction(large - small, TABLES[1] - TABLES[0])
    table = float(per_entry * printed["host_memory_gbytes"] * 2**30 / PAGE / MB)
    outcome.point("static_table", "MB", table, section="II")
    outcome.shape(
        "thirty-two-or-sixty-four",
        abs(table - printed["static_table_mbytes_section_2"])
        < abs(table - printed["static_table_mbytes_section_5"]),
        f"{float(per_entry):g} bytes for each 4 KB page: {table:g} MB",
    )


def _table_bytes(entries: int) -> int:
    design = with_settings(load_design("vmmc-static"), [f"entries={entries}"])
    return sum(nic_memory_bytes(design).values())


KB = 1024  # bytes; the paper's own 64 GB example takes binary units


def figure3(outcome: Outcome, item: Item) -> None:
    """MiNI Figure 3: NIC memory of the best cache against the static table it replaces.

    Lay both structures out and add up their bytes.
    """
    printed = item.printed
    cache = nic_memory_bytes(load_design("mini"))
    entries = item.derived["static_table_entries"]
    static = nic_memory_bytes(with_settings(load_design("vmmc-static"), [f"entries={entries}"]))
    cache_kb, static_kb = sum(cache.values()) / KB, sum(static.values()) / KB
    outcome.point("best_cache_memory", "KB", cache_kb, cache="C16.L64.A4")
    outcome.shape(
        "static-table-over-256",
        static_kb >= printed["static_table_kbytes_over"],
        f"{static_kb:.1f} KB: {listed(static)} bytes",
    )
    outcome.shape(
        "cache-under-a-third",
        cache_kb < static_kb / 3,
        f"{cache_kb:.1f} of {static_kb:.1f} KB: {listed(cache)} bytes",
    )
    before, after = printed["lookup_kbytes"]
    reduction = 100 * (1 - after / before)
    outcome.shape(
        "eighty-is-seventy-five",
        reduction < printed["lookup_reduction_percent_abstract_over"],
        f"{before} to {after} KB is {reduction:.1f} % less",
    )


FEW, MANY = 10, 10_000  # buffers
SMALL, LARGE = 2**20, 64 * 2**20  # bytes of communication memory
SPACE = 2**14 + 1024  # pages


def node_memory(outcome: Outcome, item: Item) -> None:
    """MiNI V.A: the NIC memory of running nodes, with static tables and with handle lookup.

    Run a node of either kind, and dynamic ones with much more to look up.
    """
    low, high = item.printed["code_kbytes"]
    code = (low + high) / 2 * KB
    dynamic, static = _running("mini"), _running("vmmc-static")
    before, after = (_total(cluster, LOOKUP) for cluster in (static, dynamic))
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
    cluster = Cluster(
        design, host=HostSize(frames=-(-byte_count // PAGE) + 1024, pages_per_space=SPACE)
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
