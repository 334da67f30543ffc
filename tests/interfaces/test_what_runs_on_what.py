"""What runs on what: the function, the page made from it, and what clusters do."""

import importlib.util
import re
from pathlib import Path

import msgspec
import pytest
import small_programs as small

from nicscope.config.costs import COSTS, Evidence, Origin, UnitCost
from nicscope.config.design import Way, load_design, with_settings
from nicscope.config.platform import (
    load_platform,
    missing_machine_words,
    platform_names,
    transfer_costs,
)
from nicscope.errors import NicscopeError, PlatformError
from nicscope.interfaces import mini, trapeze, unet, via, vmmc
from nicscope.interfaces.ports import cluster as ports
from nicscope.interfaces.verbs_device.fabric import Fabric
from nicscope.interfaces.ways import INTERFACES, PORTS, TRACE, Combination, why_not
from nicscope.nic.coherent import NAMES
from pairwise import pairs_among
from refusals import refused

DOCS = Path(__file__).parents[2] / "docs"
_spec = importlib.util.spec_from_file_location("ways_of_the_page", DOCS / "ways.py")
page = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(page)

EVERY = [(subject, way, why_not(subject.over(way))) for subject in page.subjects() for way in Way]


def aspects(case):
    """The parts of a subject over a way, and the page's line where that does not run."""
    subject, way, *why = case
    design = subject.design and subject.design.name
    lines = [page._without_names(line, subject.interface, way) for line in why]
    return subject.interface, design, subject.platform.name, way, *lines


# Any two parts that run together, and any two that do not with each line that says why.
RUNNING = pairs_among(((subject, way) for subject, way, why in EVERY if why is None), aspects)
REFUSED = pairs_among((case for case in EVERY if case[2] is not None), aspects)
CLUSTERS = {
    "U-Net": unet.Cluster,
    "VMMC": vmmc.Cluster,
    "miNI": mini.Cluster,
    "verbs": Fabric,
}
ON_PORTS = {
    "U-Net": small.on_unet,
    "VMMC": small.on_vmmc,
    "miNI": small.on_mini,
    "verbs": small.on_verbs,
}


NO_USE = -1  # in place of a price


def named(cases):
    return [
        pytest.param(subject, way, *why, id=f"{subject.interface} {subject.called} {way}")
        for subject, way, *why in cases
    ]


def test_the_page_shows_what_the_function_says():
    text = (DOCS / "ways.md").read_text()
    shown = text.split(page.BEGIN)[1].split(page.END)[0].strip()

    assert shown == "\n".join(page.table())


def test_every_way_and_every_interface_is_on_the_page():
    text = (DOCS / "ways.md").read_text()

    assert all(f"`{way}`" in text for way in Way)
    assert set(INTERFACES) - {PORTS, TRACE} == {subject.interface for subject in page.subjects()}
    assert {way.value for way in Way} - {"pci"} == set(NAMES)


@pytest.mark.parametrize(("subject", "way"), named(RUNNING))
def test_what_the_page_says_runs_does(subject, way, monkeypatch):
    monkeypatch.setattr(small, "BYTES", 600)
    if subject.interface == "VIA":
        how = {"platform": subject.platform.name, "design": subject.design}
        cluster = small.on_via(way.value, **how)
    elif subject.interface == "Trapeze":
        cluster = small.on_trapeze(subject.platform.name)
    else:
        design = subject.design_over(way)
        cluster = ON_PORTS[subject.interface](design, platform=subject.platform.name)

    assert cluster.report().total.bytes_in > 0


def asked_of_a_cluster(subject, way):
    """The cluster of that; Trapeze's takes no word for a way."""
    if subject.interface == "VIA":
        return via.Cluster(subject.platform.name, way.value, design=subject.design)
    return CLUSTERS[subject.interface](subject.design_over(way), subject.platform.name)


@pytest.mark.parametrize(
    ("subject", "way", "why"), named(one for one in REFUSED if one[0].interface != "Trapeze")
)
def test_a_cluster_is_refused_by_the_line_of_the_page(subject, way, why):
    with pytest.raises(NicscopeError) as told:
        asked_of_a_cluster(subject, way)

    assert str(told.value) == why
    assert "\n" not in str(told.value)


def test_no_platform_has_a_bus_and_a_pci_but_those_that_are_combined():
    both = []
    for platform in map(load_platform, platform_names()):
        try:
            transfer_costs(platform)
        except PlatformError:
            continue
        if not missing_machine_words(platform) and "pci_read_per_byte" in platform.costs:
            both.append(platform)

    assert len(both) >= 3
    assert all(platform.combines for platform in both)


def stated(platform, name, ps):
    """``platform`` with that cost, without it if ``ps`` is None, or with no use for it."""
    costs = {key: cost for key, cost in platform.costs.items() if key != name}
    absent = {key: why for key, why in platform.not_applicable.items() if key != name}
    if ps == NO_USE:
        absent[name] = "to see what it changes"
    elif ps is not None:
        origin = Origin(Evidence.ASSUMED, "assumed: to see what it changes")
        points = tuple((size, ps * size) for size in (1, 2)) if COSTS[name].size_of else ()
        costs[name] = UnitCost(
            name=name, unit="ps", origin=origin, low_ps=ps, high_ps=ps, points=points
        )
    return msgspec.structs.replace(platform, costs=costs, not_applicable=absent)


def parts_of(make, monkeypatch, platform):
    """What a cluster on ``platform`` does, its prices aside; None if it is refused for a price."""
    monkeypatch.setattr(ports, "load_platform", lambda _: platform)
    try:
        setup = make()._setup([1, 1], 4)
    except PlatformError:
        return None
    return msgspec.structs.replace(setup, costs=[], user_pin=[], user_unpin=[])


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: unet.Cluster("unet-mm-pca200"), id="U-Net/MM, NIC"),
        pytest.param(lambda: unet.Cluster("unet-mm-dc21140"), id="U-Net/MM, kernel"),
        pytest.param(lambda: vmmc.Cluster("utlb"), id="VMMC"),
        pytest.param(lambda: mini.Cluster("mini"), id="miNI"),
    ],
)
def test_no_price_decides_what_is_done(make, monkeypatch):
    own = make().platform
    as_it_is = parts_of(make, monkeypatch, own)
    assert as_it_is is not None

    for name in COSTS:
        others = (None, NO_USE) if name in own.costs else (10**6,)
        for ps in others:
            assert parts_of(make, monkeypatch, stated(own, name, ps)) in (as_it_is, None), name


def test_a_trap_that_nobody_takes_costs_nothing(monkeypatch):
    without = small.on_unet("unet-mm-pca200")
    dear = stated(without.platform, "trap", 10**9)
    monkeypatch.setattr(ports, "load_platform", lambda _: dear)

    with_one = small.on_unet("unet-mm-pca200")

    assert with_one.nic_serves
    assert with_one.report() == without.report()


def test_a_kernel_that_serves_needs_the_price_of_its_trap(monkeypatch):
    platform = stated(load_platform("dc21140-nt"), "trap", None)
    monkeypatch.setattr(ports, "load_platform", lambda _: platform)

    with refused(PlatformError, "'dc21140-nt'", "trap"):
        unet.Cluster("unet-mm-dc21140")


def test_who_serves_is_what_a_design_says_or_else_what_its_platform_can():
    silent = load_design("unet")

    assert silent.served_by is None
    assert unet.Cluster("unet", "pca200-linux").nic_serves
    assert not unet.Cluster("unet", "dc21140-linux").nic_serves
    for said, platform, why in (
        ("nic", "dc21140-linux", r"has the NIC serve ports, .*\(U-Net/MM, section 5\.2: .*kernel"),
        ("kernel", "pca200-linux", r"in a trap, .* has none \(U-Net/MM, section 5\.1: .*nic"),
    ):
        design = with_settings(silent, [f"served_by={said}"])
        with pytest.raises(PlatformError, match=why):
            unet.Cluster(design, platform)


def test_a_platform_that_states_no_bus_has_no_coherent_way():
    why = why_not(Combination("VIA", load_platform("utlb-prototype"), Way.CNI))

    assert re.fullmatch(
        r"platform 'utlb-prototype' states no retry_timeout and \d+ more, .*; it can on "
        r"sonic-via, sonic-via-utlb",
        why,
    )


def test_a_designs_delivery_and_transport_hold_unless_others_are_given():
    design = with_settings(
        load_design("utlb"), ["delivery=store-and-forward", "transport=unreliable"]
    )

    chosen = vmmc.Cluster(design)
    own = vmmc.Cluster("utlb")
    given = unet.Cluster(load_design("unet-mm-pca200"), policy="cut-through")

    assert chosen.delivery.policy.name == "STORE_AND_FORWARD"
    assert (chosen.transport_of_run.reliable, own.transport_of_run.reliable) == (False, True)
    assert chosen.transport_of_run.most_retries == own.transport_of_run.most_retries == 40
    assert given.delivery.send_buffers == 1
    assert given.transport_of_run.reliable is False  # U-Net's own: its designs do not say


def test_ways_that_are_searched_need_a_price(monkeypatch):
    design = with_settings(load_design("utlb"), ["ways=4"])
    silent = stated(load_platform("utlb-prototype"), "ni_further_way", None)
    monkeypatch.setattr(ports, "load_platform", lambda _: silent)

    with refused(PlatformError, "ni_further_way") as told:
        vmmc.Cluster(design)

    assert why_not(Combination("VMMC", silent, Way.PCI, design)) == str(told.value)
    assert why_not(Combination("VMMC", silent, Way.PCI, load_design("utlb"))) is None


def test_trapeze_runs_where_delivery_has_a_price():
    with refused(PlatformError, "firmware_start, firmware_finish"):
        trapeze.Cluster("pca200-linux")


def test_ways_for_which_the_nic_interrupts_its_host_need_a_price_of_that():
    silent = stated(load_platform("utlb-edt"), "interrupt", None)
    design = load_design("vmmc-static")
    over = {way: why_not(Combination("VMMC", silent, way, design)) for way in Way}

    assert over[Way.CC_DMA_INTERVENTION] is None
    assert "states no interrupt, so VMMC cannot" in over[Way.DMA]
