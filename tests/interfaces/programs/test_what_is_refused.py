"""What each interface refuses, in one place: clusters that cannot be, and calls of one program."""

import inspect
import struct
from functools import partial
from operator import setitem

import pytest
from failures import failure
from trapeze_sizes import PLATFORM, SMALL

from nicscope.config.design import Transport
from nicscope.drivers.simulate.ports.build import HostSize
from nicscope.errors import DesignError, PlatformError, SimulationError, StandingError, StuckError
from nicscope.interfaces import Cluster, Faults, mini, trapeze, unet, via, vmmc
from nicscope.interfaces.ports.cluster import PortCluster
from nicscope.interfaces.via import VipError
from nicscope.interfaces.vmmc import Cluster as Vmmc
from refusals import assert_named, refused

TRAPEZE = partial(trapeze.Cluster, PLATFORM)
PORTS = partial(PortCluster, "utlb", "utlb-prototype")
OVER_A_BUS = partial(trapeze.Cluster, "p6-natoma-edt")
FAULTS = ("loss", "duplication", "reordering", "corruption")
ALL = slice(None)
CLUSTERS = [
    (partial(Cluster, "utlb", pinlimit=3), "'pinlimit'", "'pin_limit'"),
    (partial(Cluster, "utlb", fault=3), "'fault'", "'faults'"),
    (partial(Cluster, "utlb", loss=0.1), "'loss'", "faults=Faults(loss=...)"),
    (partial(Cluster, "utlb", frames=64), "'frames'", "host=HostSize(frames=...)"),
    (partial(Cluster, "utlbb"), "'utlbb'", ".toml", "'utlb'"),
    (partial(Cluster, "utlb", interface="vai"), "'vai'", "'via'"),
    (partial(Cluster, "utlb", transport="reliabel"), "'reliabel'", "'reliable'"),
    (partial(Cluster, "utlb", interface="mini"), "miNI", "handle, static", "utlb"),
    (partial(Cluster, "utlb", interface="trapeze"), "Trapeze", "'utlb'"),
    (partial(Cluster, "utlb", line=4), "line=4", "scheme 'utlb'", "'line'"),
    (partial(Cluster, "utlb", entries=2.5), "entries=2.5", "whole number"),
    (partial(Cluster, "utlb", vis=3), "VMMC", "'vis'"),
    (partial(Cluster, "trapeze", transport=Transport()), "'transport'", "once"),
    (partial(Cluster, "trapeze", pin_limit=3), "'pin_limit'", "translates nothing"),
    (partial(mini.Cluster, "utlb"), "'utlb'", "miNI", "handle, static"),
    *[
        (lambda n=n: mini.Cluster(host=HostSize(processors=n)), "processors", f"got {n!r}")
        for n in (0, 3, True, "2")
    ],
    (partial(via.Cluster, host=HostSize(processors=2)), "two processors", "PCI"),
    (partial(unet.Cluster, "unet-mm-dc21140", host=HostSize(processors=2)), "two processors"),
    (partial(Vmmc, "unet-mm-pca200"), "VMMC", "unet-mm"),
    (partial(via.Cluster, mechanism="edd"), "'edd'", "'edt'"),
    (partial(via.Cluster, loss=1.0), "loss", "less than 1"),
    (partial(via.Cluster, settings={"window": 0}), "window", "from 1 to 32768"),
    (partial(via.Cluster, platform="utlb-prototype"), "retry_timeout"),
    (partial(via.Cluster, settings={"mtuu": 3}), "'mtuu'", "'mtu'"),
    (partial(via.Cluster, settings={"mtu": 0}), "mtu", "at least 1"),
    (partial(via.Cluster, settings={"post": -1}), "post", "negative"),
    (partial(via.Cluster, settings={"max_transfer": 1 << 20}), "max_transfer, 1048576"),
    (partial(via.Cluster, settings={"l2_line": 100}), "l2_line", "power of two"),
    (partial(via.Cluster, design="utlb", settings={"when_full": 2}), "when_full 2", "deregistered"),
    *[
        (partial(via.Cluster, names=names), "names: ")
        for names in ({"far": 2}, {"far": -1}, {"": 0}, {"none": ()}, {"odd": "0"})
    ],
    (partial(TRAPEZE, policy="adaptve"), "'adaptive'"),
    *[
        (partial(TRAPEZE, max_payload=most), "max_payload", "whole number", f"got {most}")
        for most in (0, -1, 2.5, 1 << 31)
    ],
    *[
        (partial(trapeze.Cluster, "pentium2-440lx", faults=Faults(**{fault: 0.1})), fault)
        for fault in ("duplication", "reordering")
    ],
    (partial(trapeze.Cluster, [PLATFORM, "alcor", "miata"]), "3 platforms", "2 nodes"),
    (partial(OVER_A_BUS, way="pio"), "DMA alone"),
    (partial(OVER_A_BUS, way="cni"), "DMA alone"),
    (partial(OVER_A_BUS, way="edt"), "not registered before"),
    (partial(OVER_A_BUS, way="dma"), "not over dma"),
    (partial(OVER_A_BUS, way="bus"), "'bus'"),
    (lambda: TRAPEZE().start(2, None), "no node 2", "there are 2"),
    *[
        (partial(Faults, **{name: chance}), name, "from 0 to 1")
        for name, chance in zip(FAULTS, (20, -0.1, "5%", None), strict=True)
    ],
    (partial(Cluster, "utlb", faults=0.2), "Faults(loss=0.02, seed=1)", "0.2"),
    (partial(Cluster, "unet", faults=Faults(node_deaths={5: 10})), "no node 5", "nodes 0 to 1"),
    (partial(Cluster, "mini", topology="ring"), "topology", "crossbar"),
    (partial(Cluster, "via", keep_log="all"), "keep_log", "whole number"),
    (partial(Cluster, "trapeze", faults=0.2), "Faults(loss=0.02, seed=1)", "0.2"),
    (partial(Cluster, "trapeze", keep_log="all"), "keep_log", "whole number"),
]


@pytest.mark.parametrize("row", CLUSTERS, ids=lambda row: " ".join(row[1:]))
def test_a_cluster_that_cannot_be_is_answered_with_what_could(row):
    make, *facts = row
    with refused((DesignError, PlatformError, SimulationError), *facts) as told:
        make()
    assert "--set" not in str(told.value)


@pytest.mark.parametrize(
    "make", [unet.Cluster, vmmc.Cluster, mini.Cluster, via.Cluster, TRAPEZE, PORTS]
)
def test_each_class_answers_an_unknown_keyword_and_has_nothing_to_report_before_its_run(make):
    with refused(SimulationError, "'topologie'", "'topology'"):
        make(topologie=None)
    with refused(SimulationError, "nothing has run yet", "run()"):
        make().report()


async def registers_twice(end):
    await end.register(end.allocate(10), name="inbox")
    await end.register(end.allocate(10), name="inbox")


async def exports_twice(endpoint):
    await endpoint.export(endpoint.allocate(1), "b")
    await endpoint.export(endpoint.allocate(1), "b")


async def redirects_to_little(endpoint):
    await endpoint.redirect(
        await endpoint.export(endpoint.allocate(4096), "b"), endpoint.allocate(4095)
    )


async def opens_its_own(end):
    await end.register(end.allocate(100), name="outbox")
    await end.open(await end.find("outbox"))


async def fills_its_area(process):
    endpoint = await process.open()
    endpoint.allocate(8 * 4096)
    endpoint.allocate(1)


def opened(act):
    """What is done with an endpoint that its process has opened."""

    async def program(process):
        await act(await process.open())

    return program


def with_nic(act):
    async def program(host):
        nic = await host.open_nic()
        await act(nic, await nic.create_ptag())

    return program


async def asks_for_a_region(nic, tag):
    (await nic.descriptors(tag)).request(await nic.register_mem(nic.allocate(4096), tag))


async def asks_for_a_buffer(nic, tag):
    (await nic.descriptors(tag)).request(nic.allocate(8))


async def waits_for_what_was_not_posted(nic, tag):
    await nic.recv_wait(await nic.create_vi(tag))


async def allocates_much(nic, _):
    nic.allocate(1 << 30)


async def loops_over_a_call(endpoint):
    for _ in endpoint.receive():
        pass


async def unpacks_a_call(endpoint):
    struct.unpack("<Q", endpoint.allocate(8).read())


async def sends_too_many(process):
    endpoint = await process.open()
    tag = await endpoint.connect(1, "taker")
    for _ in range(65):
        await endpoint.send(tag, b"hello")


async def takes_them_all(process):
    endpoint = await process.open("taker")
    for _ in range(65):
        await endpoint.receive()


async def provides_too_many(endpoint):
    for _ in range(100):
        await endpoint.provide(endpoint.allocate(4096))


AREA = partial(unet.Cluster, "unet", "pca200-linux", area_bytes=8 * 4096)
SMALL_RINGS = partial(TRAPEZE, policy=SMALL)
CALLS = [
    (SMALL_RINGS, lambda e: e.reserve(129), "128 bytes", "0 are reserved", "129"),
    (SMALL_RINGS, lambda e: e.allocate(10**9), "bytes of memory left"),
    (SMALL_RINGS, lambda e: e.map_payload(99, e.allocate(600)), "tag", "from 0 to 63", "99"),
    (SMALL_RINGS, lambda e: e.unmap_payload(1), "tag 1", "node 0", "not mapped"),
    (SMALL_RINGS, lambda e: e.map_payload(1, e.allocate(10)), "largest payload"),
    (SMALL_RINGS, lambda e: e.send(7, e.allocate(10)), "node 7", "2", "from 0 to 1"),
    (SMALL_RINGS, lambda e: e.send(0, e.allocate(10)), "no path", "node 0 to node 0"),
    (SMALL_RINGS, lambda e: e.sent(), "no message"),
    (SMALL_RINGS, lambda e: e.send(1, e.allocate(601)), "at most 600 bytes", "601"),
    *[
        (SMALL_RINGS, lambda e, align=align: e.allocate(10, align=align), "alignment")
        for align in (0, -4, 3, 12, "4", 2**40)
    ],
    (partial(OVER_A_BUS, way="cc-dma-retry", host_bytes=(1 << 20) + 1), None, "128 bytes"),
    (mini.Cluster, registers_twice, "'inbox'", "taken"),
    (mini.Cluster, lambda e: e.register(e.allocate(10), "all"), "rights", "'all'"),
    (mini.Cluster, opens_its_own, "no path", "node 0 to node 0"),
    (mini.Cluster, lambda e: e.find("nobody", timeout_us=2000), "'nobody'", "2,000 us"),
    (Vmmc, lambda e: e.import_buffer(1, "none", patience_us=500), "node 1", "'none'", "500 us"),
    (Vmmc, exports_twice, "'b'", "already"),
    (Vmmc, redirects_to_little, "'b'", "4095 bytes"),
    (Vmmc, lambda e: e.wait(), "no transfer"),
    *[(Vmmc, lambda e, given=given: e.spawn(given), "'await'") for given in (print, 5)],
    (Vmmc, lambda e: e.wait_any(), "one call or more", "none"),
    (AREA, fills_its_area, "1 bytes", "32768"),
    (unet.Cluster, opened(lambda e: e.process.open()), "no endpoint", "endpoints=2"),
    (unet.Cluster, opened(provides_too_many), "free queue of 64"),
    (via.Cluster, with_nic(asks_for_a_region), "region.segment"),
    (via.Cluster, with_nic(allocates_much), "VIP_ERROR_RESOURCE"),
    # What programs do wrong at first.
    (unet.Cluster, opened(lambda e: e.send("server", b"hello")), "its tag", "connect()"),
    (unet.Cluster, opened(lambda e: e.send(b"hello", 32)), "its tag"),
    (unet.Cluster, opened(lambda e: e.send(32, bytes(100))), "56 bytes", "100", "buffers"),
    (unet.Cluster, opened(lambda e: e.store(3)), "allocate, area, close, compute, connect, "),
    (unet.Cluster, lambda p: p.allocate(10)[0], "read(), write() and array()"),
    (unet.Cluster, opened(loops_over_a_call), "write 'await' before it"),
    (Vmmc, unpacks_a_call, "write 'await' before it"),
    (Vmmc, lambda e: e.wait(e.store(3, 4)), "transfer", "store()", "write 'await'"),
    (Vmmc, lambda e: e.export(b"hello", "table"), "allocate()", "process 0 of node 0"),
    (Vmmc, lambda e: setitem(e.allocate(40).array("i8"), 7, 3), "element 7", "5 of int64"),
    (mini.Cluster, lambda e: e.open("table"), "find(name)", "'table'"),
    (SMALL_RINGS, lambda e: e.send(e.allocate(8), 1), "a destination", "whole number"),
    (SMALL_RINGS, lambda e: setitem(e.reserve(5), ALL, b"abc"), "reserve(len(content))"),
    (SMALL_RINGS, lambda e: setitem(e.reserve(5), ALL, "hello"), "str", ".encode()"),
    (SMALL_RINGS, lambda e: setitem(e.allocate(8).bytes, ALL, b"8" * 8), "write()", "array()"),
    (via.Cluster, with_nic(asks_for_a_buffer), "register_mem(buffer, tag)"),
    (via.Cluster, with_nic(waits_for_what_was_not_posted), "no descriptor", "queue of VI 2"),
]


@pytest.mark.parametrize("row", CALLS, ids=lambda row: " ".join(row[2:]))
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_call_that_cannot_be_is_answered_with_what_could(row):
    make, call, *facts = row

    async def program(given):
        done = call(given) if call else given.sleep(1)
        if inspect.isawaitable(done):
            await done

    error = failure(make(), program, kind=Exception)
    if isinstance(error, (SimulationError, VipError)) and not isinstance(error, StandingError):
        assert "\n" not in str(error)
    assert_named("\n".join([str(error), *getattr(error, "__notes__", [])]), tuple(facts))


def test_a_send_queue_full_of_ends_that_nobody_has_read_says_so():
    error = failure(unet.Cluster(), sends_too_many, takes_them_all, kind=StuckError)
    assert "send queue of 64" in str(error)


def test_a_server_that_is_left_alone_hears_of_daemons():
    async def server(endpoint):
        await endpoint.notification()

    async def client(endpoint):
        await endpoint.sleep(1.0)

    assert "daemon=True" in str(failure(Vmmc(), server, client, kind=StuckError))
    assert "daemon" not in str(failure(Vmmc(), server, server, kind=StuckError))
