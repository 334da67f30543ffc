"""Catalogs in which one fitted constant has another value, and quick ways to the fitted numbers."""

import gc
import re
import shutil
import sys
from functools import _lru_cache_wrapper, cache, partial

from nicscope.config import toml_files
from nicscope.interfaces import mini as mini_cluster
from nicscope.studies.reproduce.experiments import edt, mini
from nicscope.studies.reproduce.experiments.trapeze import (
    PAIRS,
    POLICY_OF,
    bandwidth_mbytes_s,
    latency_us,
    pair_costs,
    platform_costs,
)
from nicscope.studies.reproduce.harness import find_experiment
from nicscope.studies.reproduce.verdict import Outcome, load_paper

Numbers = dict[str, float]  # by quantity
REMEMBERING = ("nicscope.studies.", "nicscope.interfaces.", "nicscope.drivers.")
FITTED = re.compile(r"^(\w+) *= \{.*evidence = \"fitted\"", re.MULTILINE)


def fitted_on_platforms():
    """Every value that a platform of the catalog says was fitted, as PLATFORM.COST."""
    return {
        f"{path.stem}.{name}"
        for path in (toml_files.CATALOG / "platforms").glob("*.toml")
        for name in FITTED.findall(path.read_text())
    }


def platforms_of(constant):
    """(platform, cost) of each place that ``constant`` stands for."""
    platform, _, cost = constant.partition(".")
    if platform != "*":
        return [(platform, cost)]
    fitted = sorted(each.split(".") for each in fitted_on_platforms())
    return [(name, other) for name, other in fitted if other == cost]


def shift(monkeypatch, folder, constant):
    """From now on ``constant`` has a value that is larger by a tenth, and by one at least."""
    platform, _, name = constant.partition(".")
    if platform == "PortSize":
        size = getattr(mini_cluster.PortSize(), name) * 2  # a cache's size: a power of two
        monkeypatch.setattr(
            mini_cluster, "PortSize", partial(mini_cluster.PortSize, **{name: size})
        )
        return
    folder.mkdir()
    for each in toml_files.CATALOG.iterdir():
        if each.name in ("platforms", "nics"):
            shutil.copytree(each, folder / each.name)
        else:
            (folder / each.name).symlink_to(each)
    for key, cost in platforms_of(constant):
        [path] = [*folder.glob(f"platforms/{key}.toml"), *folder.glob(f"nics/{key}.toml")]
        lines = path.read_text().split("\n")
        (place,) = (n for n, line in enumerate(lines) if re.match(rf"{cost} *=", line))
        before, value, after = re.split(
            r"(?<=value = )(\[[^]]*\]|[\d.]+)", lines[place], maxsplit=1
        )
        lines[place] = before + re.sub(r"[\d.]+", _larger, value) + after
        path.write_text("\n".join(lines))
    monkeypatch.setattr(toml_files, "CATALOG", folder)
    forget()


def _larger(number):
    whole, point, decimals = number.group().partition(".")
    if not point:
        return str(int(whole) + max(1, int(whole) // 10))
    return f"{float(number.group()) * 1.1:.{len(decimals)}f}"


@cache
def _remembering(modules):  # noqa: ARG001 - or anew
    """What remembers earlier calls, for as long as no module is imported."""
    return [
        thing
        for thing in gc.get_objects()
        if isinstance(thing, _lru_cache_wrapper) and thing.__module__.startswith(REMEMBERING)
    ]


def forget():
    """Drop whatever studies and their machines remember of earlier calls; never compiled code."""
    for thing in _remembering(len(sys.modules)):
        thing.cache_clear()


def numbers_of(paper, item):
    """The fitted numbers of an item, or as many as tell: quickly, if the whole takes long."""
    quick = QUICK.get((paper, item))
    if quick is not None:
        return quick()
    found = find_experiment(paper, item)(load_paper(paper).items[item])
    return {name: float(value) for name, value in found.values.items()}


def _as_numbers(outcome):
    return {name: float(value) for name, value in outcome.values.items()}


def _trapeze_table1():
    found = Outcome()
    for pair in PAIRS:
        ends = pair_costs(platform_costs(), pair)
        for kind, policy in POLICY_OF.items():
            found.point(f"{kind}_4k_latency", "us", latency_us(ends, policy, 4096), pair=pair)
    ends = pair_costs(platform_costs(), "p6-natoma")
    for kind, policy in POLICY_OF.items():
        rate = bandwidth_mbytes_s(ends, policy, 4096)
        found.point(f"{kind}_4k_bandwidth", "MB/s", rate, pair="p6-natoma")
    return _as_numbers(found)


def _trapeze_headline():
    found = Outcome()
    ends = pair_costs(platform_costs(), "pentium2-440lx")
    found.point("latency_4k", "us", latency_us(ends, "adaptive", 4096), pair="pentium2-440lx")
    return _as_numbers(found)


def _edt_figure8():
    found = Outcome()
    for size in (64, 4096):
        found.point("gain", "%", edt.gain(size), bytes=size)
    return _as_numbers(found)


def _edt_contention():
    found = Outcome()
    gain = edt.gain(64, 1200, edt.fitted_bursts(1200))
    found.point("low_end_fitted_at_1200", "%", gain)
    return _as_numbers(found)


def _mini_node_memory():
    found = Outcome()
    before, after = (
        mini.total(mini.running(design), mini.LOOKUP) for design in ("vmmc-static", "mini")
    )
    found.point("lookup_reduction", "percent", 100 * (1 - after / before))
    return _as_numbers(found)


QUICK = {
    ("edt", "contention"): _edt_contention,
    ("edt", "figure8"): _edt_figure8,
    ("mini", "node_memory"): _mini_node_memory,
    ("trapeze", "headline"): _trapeze_headline,
    ("trapeze", "table1"): _trapeze_table1,
}
