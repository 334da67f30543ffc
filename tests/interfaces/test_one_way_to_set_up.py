"""``Cluster`` and the classes behind it: what makes which, what is refused, what editors see."""

import inspect
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import nicscope
from nicscope import interfaces
from nicscope.config.design import PARTS, SCHEMES, Transport, design_names, load_design
from nicscope.errors import DesignError
from nicscope.interfaces import Cluster, Faults, crossbar, mini, trapeze, unet, via, vmmc
from nicscope.interfaces import options as setting
from nicscope.interfaces.arguments import DesignSettings, RunOptions
from nicscope.interfaces.options import AnyOptions, TrapezeOptions
from nicscope.interfaces.ways import IN_TIME
from refusals import refused

KINDS = {"unet": unet, "vmmc": vmmc, "mini": mini, "via": via, "trapeze": trapeze}
LITERALS = {
    "unet": setting.UNetDesign,
    "vmmc": setting.VmmcDesign,
    "mini": setting.MiniDesign,
    "via": setting.ViaDesign,
    "trapeze": setting.TrapezeDesign,
}


def words_of(interface):
    return typing.get_args(eval(LITERALS[interface], vars(typing)))


@pytest.mark.parametrize("interface", KINDS)
def test_every_word_gives_the_clusters_that_its_type_promises(interface):
    for word in words_of(interface):
        assert type(Cluster(word)) is KINDS[interface].Cluster, word


def test_every_design_of_the_catalog_is_a_word():
    words = {word for interface in KINDS for word in words_of(interface)}

    runs = {name for name in design_names() if load_design(name).scheme in IN_TIME}
    assert words == {*runs, *setting.FIRST_CHOICE}


@pytest.mark.parametrize("word", ["unet", "vmmc", "mini", "via", "edt"])
def test_platform_faults_transport_and_topology_are_given_alike(word):
    platform = Cluster(word).platform
    faults, transport = Faults(loss=0.25, seed=4), Transport(window=3)

    cluster = Cluster(
        word, platform=platform, faults=faults, transport=transport, topology=crossbar(3)
    )

    assert (cluster.faults, cluster.transport_of_run) == (faults, transport)
    assert (cluster.platform.name, cluster.topology.nodes) == (platform.name, 3)
    assert Cluster(word, transport="reliable", nodes=4).transport_of_run.reliable
    assert not Cluster(word, transport="unreliable").transport_of_run.reliable


def test_settings_of_a_design_are_keywords_of_all():
    cluster = Cluster(
        "utlb",
        platform="utlb-edt",
        pin_limit=64,
        entries=1024,
        ways=2,
        replacement="mru",
        way="edt",
    )

    found = cluster.design
    assert (found.pin_limit, found.entries, found.ways, found.way) == (64, 1024, 2, "edt")
    assert found.replacement.name == "MRU"
    assert vmmc.Cluster("utlb", pin_limit=64).design.pin_limit == 64
    assert unet.Cluster("unet-mm-pca200", entries=256).design.entries == 256
    assert mini.Cluster("mini", high_water=100).design.high_water == 100
    assert via.Cluster(design="via-static", entries=4096).design.entries == 4096
    assert Cluster("unet", area_bytes="64KiB").design.area_bytes == 65536
    assert Cluster("via-static", entries=4096).design.entries == 4096
    assert vmmc.Cluster(load_design("utlb"), pin_limit=None).design.pin_limit is None


def test_a_design_that_serves_several_interfaces_serves_the_one_that_is_named():
    over_utlb = Cluster("utlb", interface="via", pin_limit=512)

    assert isinstance(over_utlb, via.Cluster)
    assert (over_utlb.design.name, over_utlb.design.pin_limit) == ("utlb", 512)
    assert isinstance(Cluster("via-static", interface="VMMC", platform="utlb-prototype"),
                      vmmc.Cluster)  # fmt: skip
    assert isinstance(Cluster("vmmc-static", interface="miNI"), mini.Cluster)
    assert isinstance(Cluster(load_design("mini")), mini.Cluster)


def test_a_file_says_which_interface_it_serves(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text('scheme = "static"\nentries = 64\ninterface = "via"\n')

    assert type(Cluster(path)) is type(Cluster(str(path))) is via.Cluster
    path.write_text('scheme = "static"\nentries = 64\ninterface = "vai"\n')
    with refused(DesignError, "own.toml", "'vai'", "'via'"):
        Cluster(path)


def test_keywords_that_editors_complete_are_those_that_are_taken():
    shown = {*inspect.signature(Cluster).parameters} - {"design", "interface"}

    assert shown == {*AnyOptions.__annotations__, *TrapezeOptions.__annotations__}
    taken = set()
    for kind in KINDS.values():
        taken |= {*inspect.signature(kind.Cluster).parameters}
    # By other names, or spoken of with others: faults, and VIA's word for the way.
    assert taken - shown == {"design", "mechanism", "loss"}
    assert shown - taken == set()
    assert {*DesignSettings.__annotations__} == (
        {*(key for scheme in IN_TIME for key in SCHEMES[scheme].uses), *PARTS, "scheme"}
        - {*RunOptions.__annotations__}
    )


@pytest.mark.parametrize("interface", KINDS)
def test_no_constructor_hides_its_keywords(interface):
    kinds = {one.kind for one in inspect.signature(KINDS[interface].Cluster).parameters.values()}

    assert inspect.Parameter.VAR_KEYWORD not in kinds


def test_every_public_name_of_an_interface_is_one_of_all_of_them_unless_several_have_it():
    owners = {}
    for kind in KINDS.values():
        for name in kind.__all__:
            owners.setdefault(name, []).append(getattr(kind, name))
    for name, found in owners.items():
        if name != "Cluster" and all(each is found[0] for each in found):
            if name in ("Endpoint", "Message", "Process"):
                continue
            assert getattr(interfaces, name) is found[0], name
    assert {*interfaces.HOME, *interfaces.MODULES} == {*interfaces.__all__}
    assert {*interfaces.__all__} <= {*dir(interfaces)}
    with pytest.raises(AttributeError, match="no attribute 'Clustre'"):
        _ = interfaces.Clustre


def test_the_package_loads_nothing_heavy_and_says_that_it_is_typed():
    heavy = ("numba", "numpy", "pyarrow", "msgspec")
    modules = "nicscope, nicscope.interfaces"
    code = f"import sys, {modules}; print([n for n in {heavy} if n in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert told.stdout.strip() == "[]"
    assert (Path(nicscope.__file__).parent / "py.typed").is_file()


@pytest.mark.parametrize("word", ["utlb", "unet", "mini", "via", "trapeze"])
def test_a_cluster_says_in_a_line_what_it_is(word):
    async def program(process):
        pass

    cluster = Cluster(word, nodes=3)
    cluster.start(1, program)

    told = repr(cluster)
    assert told.startswith("<Cluster of 3 nodes, 1 program: ")
    assert cluster.interface in told
    assert len(told) < 120
