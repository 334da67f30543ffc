"""Memory: what is asked for is known before it is taken, and too much is refused in one line."""

import ctypes
import mmap
import os
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope import memory_limit
from nicscope.cli.app import main
from nicscope.config.design import Delivery, design_names, load_design
from nicscope.drivers.simulate.bus.state import bytes_at_buses, new_bus, unfitted
from nicscope.drivers.simulate.ports.build import HostSize, PortSize, Transport
from nicscope.errors import SimulationError
from nicscope.interfaces import mini, trapeze, unet, vmmc
from nicscope.interfaces.ports import cluster as ports_cluster
from nicscope.interfaces.via.cluster import Cluster as ViaCluster
from nicscope.interfaces.ways import IN_TIME

GIB = 1 << 30
HUGE = 10**9
PRICED = [
    name
    for name in design_names()
    if load_design(name).platform and load_design(name).scheme in IN_TIME
]
# Every way to ask an interface for too much: what is made, and with what.
ASKS = {
    "unet nodes": (unet.Cluster, {"nodes": 100_000}),
    "unet far too many nodes": (unet.Cluster, {"nodes": 10**15}),
    "unet endpoints": (unet.Cluster, {"endpoints": 1 << 20}),
    "unet frames": (unet.Cluster, {"host": HostSize(frames=HUGE)}),
    "unet swap": (unet.Cluster, {"host": HostSize(swap_blocks=HUGE)}),
    "unet pages": (unet.Cluster, {"host": HostSize(pages_per_space=HUGE)}),
    "unet log": (unet.Cluster, {"keep_log": HUGE}),
    "unet queues": (unet.Cluster, {"size": PortSize(ring=HUGE)}),
    "unet buffers": (unet.Cluster, {"size": PortSize(ready=HUGE)}),
    "unet tags": (unet.Cluster, {"size": PortSize(channels=HUGE)}),
    "unet rings": (
        unet.Cluster, {"policy": Delivery(send_ring=HUGE)},
    ),
    "vmmc nodes": (vmmc.Cluster, {"nodes": 100_000}),
    "vmmc exports": (vmmc.Cluster, {"size": PortSize(exports=HUGE)}),
    "vmmc imports": (vmmc.Cluster, {"size": PortSize(imports=HUGE)}),
    "vmmc frames": (vmmc.Cluster, {"host": HostSize(frames=HUGE)}),
    "vmmc log": (vmmc.Cluster, {"keep_log": HUGE}),
    "mini nodes": (mini.Cluster, {"nodes": 100_000}),
    "mini events": (mini.Cluster, {"size": PortSize(events=HUGE)}),
    "mini handles": (mini.Cluster, {"size": PortSize(buffer_entries=1 << 36)}),
    "mini log": (mini.Cluster, {"keep_log": HUGE}),
    "trapeze nodes": (trapeze.Cluster, {"platform": "alcor", "nodes": 100_000}),
    "trapeze memory": (trapeze.Cluster, {"platform": "alcor", "host_bytes": 1 << 40}),
    "trapeze tags": (trapeze.Cluster, {"platform": "alcor", "tags": 10 * HUGE}),
    "trapeze log": (trapeze.Cluster, {"platform": "alcor", "keep_log": HUGE}),
    "trapeze far too many": (trapeze.Cluster, {"platform": "alcor", "nodes": 10**15}),
    "via nodes": (ViaCluster, {"nodes": 100_000}),
    "via far too many nodes": (ViaCluster, {"nodes": 10**15}),
    "via memory": (ViaCluster, {"settings": {"memory_bytes": 1 << 40}}),
    "via caches": (ViaCluster, {"settings": {"l2_bytes": 1 << 40}}),
    "via nic": (ViaCluster, {"settings": {"nic_memory_bytes": 1 << 40}}),
}  # fmt: skip
SIMULATE = ["simulate", "bundled:redis_server", "--requests", "2", "--design", "mini"]
COMMANDS = {
    "latency": ["latency", "--bytes", "64", "--set", "memory_bytes=1099511627776"],
    "translation": ["latency", "--bytes", "64", "--translation", "utlb", "--entries", "67108864"],
    "simulate": [*SIMULATE, "--set", "entries=67108864"],
}


@pytest.fixture
def few_left(monkeypatch):
    """A machine with 1 GiB left, on which nothing larger can be made by mistake."""
    monkeypatch.setattr(memory_limit, "available_bytes", lambda: GIB)


def arrays(state):
    """Every array of nested tuples."""
    if isinstance(state, np.ndarray):
        yield state
    elif hasattr(state, "_fields"):
        for part in state:
            yield from arrays(part)


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.usefixtures("few_left")
def test_too_much_is_refused_when_it_is_asked_for_with_what_it_takes_and_what_is_left(ask):
    make, options = ASKS[ask]

    with pytest.raises(
        SimulationError, match=r"GiB of memory, and 1\.0 GiB are left here; "
    ) as said:
        make(**options)

    found = str(said.value)
    assert float(found.split(" up to ")[1].split()[0].replace(",", "")) > 1.0
    assert "\n" not in found


def test_what_is_refused_only_with_its_programs_is_refused_when_it_runs(monkeypatch):
    cluster = vmmc.Cluster()

    async def program(endpoint):
        raise AssertionError(endpoint)

    for _ in range(20):
        cluster.start(0, program)
    monkeypatch.setattr(memory_limit, "available_bytes", lambda: 1 << 20)

    with pytest.raises(SimulationError, match="a cluster of 2 nodes would take up to "):
        cluster.run()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.usefixtures("few_left")
def test_a_command_that_asks_for_too_much_is_refused_in_one_line(command, capsys):
    assert main(COMMANDS[command]) == 2

    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if not line.startswith("compiling")]
    assert out == ""
    assert len(lines) == 1
    assert " GiB of memory, and 1.0 GiB are left here; " in lines[0]


def test_memory_that_runs_out_elsewhere_is_one_line_too(monkeypatch, capsys):
    def takes_all(*_, **__):
        raise np._core._exceptions._ArrayMemoryError((1 << 40,), np.dtype(np.uint8))

    monkeypatch.setattr("nicscope.traces.formats.open_any", takes_all)

    assert main(["curve", "bundled:redis_server"]) == 2
    assert capsys.readouterr().err == (
        "nicscope: there is not enough memory: unable to allocate 1.00 TiB for an array with "
        "shape (1099511627776,) and data type uint8; ask for less\n"
    )


@given(
    design=st.sampled_from(PRICED),
    nodes=st.integers(2, 9),
    ports=st.integers(1, 40),
    pages=st.sampled_from([64, 512, 4096]),
    frames=st.integers(64, 4096),
    ring=st.integers(1, 200),
    exports=st.integers(1, 500),
    window=st.sampled_from([1, 16, 64]),
    log=st.integers(0, 10_000),
)
def test_what_a_cluster_is_said_to_take_is_what_it_takes(
    design, nodes, ports, pages, frames, ring, exports, window, log
):
    said = []
    cluster = ports_cluster.PortCluster(
        design,
        nodes=nodes,
        ports=ports,
        keep_log=log,
        transport=Transport(window=window),
        host=HostSize(frames=frames, pages_per_space=pages),
        size=PortSize(ring=ring, exports=exports, longest=pages),
    )
    check, ports_cluster.check_memory = (
        ports_cluster.check_memory,
        lambda need, *_: said.append(need),
    )
    try:
        simulation = cluster._simulation([0, 0, 1], [2, *[1] * (nodes - 1)])
    finally:
        ports_cluster.check_memory = check
    machine = simulation.machine
    machine = machine._replace(store=machine.store._replace(host=np.zeros(0)))
    taken = sum(array.nbytes for array in arrays(machine))

    assert taken <= said[0] <= 1.5 * taken + (1 << 20)


@given(
    nodes=st.integers(1, 5),
    memory=st.integers(20, 24),
    cache=st.integers(15, 22),
    nic=st.integers(21, 23),
    tags=st.integers(1, 5000),
)
def test_so_is_what_hosts_with_caches_take(nodes, memory, cache, nic, tags):
    host = {"memory_bytes": 1 << memory, "l2_bytes": 1 << cache}
    there = {"memory_bytes": 1 << nic}
    bus = new_bus(nodes, nodes, unfitted().host | host, unfitted().nic | there, tags=tags)
    taken = sum(array.nbytes for array in arrays(bus))

    assert taken <= bytes_at_buses(nodes, host, there, tags) <= 1.2 * taken + (1 << 20)


@pytest.mark.usefixtures("few_left")
def test_a_translation_cache_of_too_many_entries_is_refused_by_via():
    wide = msgspec.structs.replace(load_design("utlb"), entries=1 << 26)

    with pytest.raises(SimulationError, match=r"would take up to .* and .* are left"):
        ViaCluster(mechanism="dma", design=wide)


def test_what_is_left_is_the_least_that_anybody_says(monkeypatch):
    for mine, group, process, least in ((9, 8, None, 8), (7, None, 5, 5), (None, None, None, None)):
        monkeypatch.setattr(memory_limit, "_of_machine", lambda mine=mine: mine)
        monkeypatch.setattr(memory_limit, "_of_group", lambda group=group: group)
        monkeypatch.setattr(memory_limit, "_of_process", lambda process=process: process)
        assert memory_limit.available_bytes() == least


def test_a_machine_that_says_nothing_refuses_nothing(monkeypatch):
    monkeypatch.setattr(memory_limit, "available_bytes", lambda: None)

    memory_limit.check_memory(1 << 60, "all", "none")


def test_what_a_control_group_can_drop_is_left_too(tmp_path):
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("700\n")
    (tmp_path / "memory.stat").write_text("anon 300\ninactive_file 250\n")

    names = ("memory.max", "memory.current", "inactive_file")
    assert memory_limit._of_folder(tmp_path, *names) == [550]
    (tmp_path / "memory.max").write_text("max\n")
    assert memory_limit._of_folder(tmp_path, *names) == []
    assert memory_limit._of_folder(tmp_path / "absent", *names) == []


def test_this_machine_has_something_left():
    left = memory_limit.available_bytes()
    assert left is not None
    assert left > 1 << 20


def pages_in_memory(array):
    """Pages of ``array`` that have memory, as the kernel says."""
    pages = -(-array.nbytes // mmap.PAGESIZE)
    found = (ctypes.c_ubyte * pages)()
    libc = ctypes.CDLL(None, use_errno=True)
    address = ctypes.c_void_p(array.ctypes.data)
    assert libc.mincore(address, ctypes.c_size_t(array.nbytes), found) == 0
    return sum(each & 1 for each in bytes(found))


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_large_zeros_take_memory_only_where_they_are_written():
    array = memory_limit.zeros((8, 1 << 22), np.dtype(np.uint8))
    assert array.flags.writeable
    assert pages_in_memory(array) == 0

    array[3, 1 << 20] = 7
    array[5, -1] = 8

    assert pages_in_memory(array) == 2
    assert array[3].sum() == 7


STRICT = Path("/proc/sys/vm/overcommit_memory")


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
@pytest.mark.skipif(
    STRICT.exists() and STRICT.read_text().strip() == "2",
    reason="the kernel reserves what is mapped, wherever it is written to",
)
def test_a_process_with_more_large_zeros_than_there_is_memory_may_fork():
    most = os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE
    arrays = [memory_limit.zeros((most * 3 // 4,), np.dtype(np.uint8)) for _ in range(2)]
    child = os.fork()
    if child == 0:
        os._exit(arrays[1][-1])
    assert os.waitpid(child, 0)[1] == 0


def test_large_zeros_of_records_have_their_fields_as_attributes():
    few, many = (
        memory_limit.zeros((size,), np.dtype([("a", "i8"), ("b", "u1")])) for size in (2, 1 << 20)
    )
    for array in (few, many):
        array[1].a = 5
        assert (array[1].a, array["a"].sum(), array["b"].any()) == (5, 5, False)
