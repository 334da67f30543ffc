"""The examples that run on ports say the same, times aside, whichever way their bytes take."""

import re
import runpy
from pathlib import Path

import pytest

from nicscope.config.design import Way, load_design, with_settings
from nicscope.drivers.simulate.ports.build import Faults
from nicscope.interfaces.ports.cluster import PortCluster

EXAMPLES = Path(__file__).parents[2] / "examples"
# Not that of a link that dies: how much is stored before is a matter of time.
NAMES = ("unet_pingpong", "unet_mm_paging", "vmmc_store_fetch", "mini_many_buffers")
LOSSES = dict(zip(NAMES, ((0.0, 0.05), (0.05, 0.0)) * 2, strict=True))  # over either way
PLATFORMS = {
    "utlb-prototype": "utlb-edt",
    "pca200-linux": "pca200-edt",
    "mini-cluster": "mini-edt",
}
TIME = re.compile(r" *\d+\.\d+ (us|ms)")


def said(name, way, loss, monkeypatch, capsys):
    """What an example prints where every cluster has this way and this loss, without times."""
    crossed = []
    make = PortCluster.__init__

    def made(cluster, design, platform=None, **how):
        chosen = load_design(design) if isinstance(design, str) else design
        chosen = with_settings(chosen, [f"way={way}", "transport=reliable"])
        where = PLATFORMS[platform or chosen.platform]
        make(cluster, chosen, where, **how | {"faults": Faults(loss=loss, seed=2)})
        crossed.append(cluster)

    with monkeypatch.context() as changed:
        changed.setattr(PortCluster, "__init__", made)
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    moved = [one.simulation.machine.bus.hosts.counts.sum() for one in crossed if one.simulation]
    assert any(count > 0 for count in moved) == (way != "pci")
    return TIME.sub("", capsys.readouterr().out)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_says_the_same_over_the_bus(name, monkeypatch, capsys):
    over_pci = said(name, "pci", 0.0, monkeypatch, capsys)

    for way, loss in zip(("cc-dma-retry", "cc-dma-intervention"), LOSSES[name], strict=True):
        assert said(name, way, loss, monkeypatch, capsys) == over_pci


def test_one_program_has_the_same_bytes_over_every_way_and_edt_is_before_coherent_dma(capsys):
    runpy.run_path(str(EXAMPLES / "ports_over_ways.py"), run_name="__main__")
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    ran = {way: [float(one) for one in times] for way, *times, _ in rows if len(times) == 3}

    assert {way for way, *_ in rows} == {way.value for way in Way}
    assert {"pci", "dma", "cc-dma-intervention", "edt"} <= set(ran)
    assert len({row[-1] for row in rows if row[0] in ran}) == 1
    for size in range(3):
        assert ran["edt"][size] < ran["cc-dma-intervention"][size] <= ran["cc-dma-retry"][size]
        assert ran["cc-dma-retry"][size] < ran["dma"][size]
