"""What each interface refuses, in one place: clusters that cannot be, and calls of one program."""

from __future__ import annotations

import inspect
from functools import partial

import pytest
from trapeze_sizes import PLATFORM, SMALL

from nicscope.config.delivery import Transport
from nicscope.drivers.simulate.ports.build import HostSize
from nicscope.errors import DesignError, PlatformError, SimulationError
from nicscope.interfaces import Cluster, Faults, WaitTimeoutError, mini, trapeze, unet, via, vmmc
from nicscope.interfaces.ports.cluster import PortCluster
from nicscope.interfaces.via import VipError
from nicscope.interfaces.vmmc import Cluster as Vmmc
from refusals import refused

TRAPEZE = partial(trapeze.Cluster, PLATFORM)
PORTS = partial(PortCluster, "utlb", "utlb-prototype")
OVER_A_BUS = partial(trapeze.Cluster, "p6-natoma-edt")
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


async def opens_two(process):
    await process.open()
    await process.open()


async def fills_its_area(process):
    endpoint = await process.open()
    endpoint.allocate(8 * 4096)
    endpoint.allocate(1)


async def sends_what_is_not_small(process):
    endpoint = await process.open("me")
    await endpoint.send(0, b"x" * 56)


async def asks_for_a_region(host):
    nic = await host.open_nic()
    tag = await nic.create_ptag()
    places = await nic.descriptors(tag)
    places.request(await nic.register_mem(nic.allocate(4096), tag))


async def allocates_much(host):
    (await host.open_nic()).allocate(1 << 30)


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
    (SMALL_RINGS, lambda e: e.send(1, e.allocate(601)), "at most 600 bytes", "601"),
    *[
        (SMALL_RINGS, lambda e, align=align: e.allocate(10, align=align), "alignment")
        for align in (0, -4, 3, 12, "4", 2**40)
    ],
    (partial(OVER_A_BUS, way="cc-dma-retry", host_bytes=(1 << 20) + 1), None, "128 bytes"),
    (mini.Cluster, registers_twice, "'inbox'", "taken"),
    (mini.Cluster, lambda e: e.register(e.allocate(10), "all"), "rights", "'all'"),
    (mini.Cluster, opens_its_own, "no path", "node 0 to node 0"),
    (mini.Cluster, lambda e: e.find("nobody"), "'nobody'", "1,000,000 us"),
    (Vmmc, lambda e: e.import_buffer(1, "none", patience_us=500), "node 1", "'none'", "500 us"),
    (Vmmc, exports_twice, "'b'", "already"),
    (Vmmc, redirects_to_little, "'b'", "4095 bytes"),
    (Vmmc, lambda e: e.wait(), "no transfer"),
    *[(Vmmc, lambda e, given=given: e.spawn(given), "'await'") for given in (print, 5)],
    (Vmmc, lambda e: e.wait_any(), "one call or more", "none"),
    (AREA, fills_its_area, "1 bytes", "32768"),
    (unet.Cluster, sends_what_is_not_small, "56", "buffers"),
    (unet.Cluster, opens_two, "no endpoint", "endpoints=2"),
    (via.Cluster, asks_for_a_region, "region.segment"),
    (via.Cluster, allocates_much, "VIP_ERROR_RESOURCE"),
]


@pytest.mark.parametrize("row", CALLS, ids=lambda row: " ".join(row[2:]))
def test_a_call_that_cannot_be_is_answered_with_what_could(row):
    make, call, *facts = row

    async def program(given):
        done = call(given) if call else given.sleep(1)
        if inspect.isawaitable(done):
            await done

    cluster = make()
    cluster.start(0, program)
    with refused((SimulationError, VipError, WaitTimeoutError), *facts):
        cluster.run()
