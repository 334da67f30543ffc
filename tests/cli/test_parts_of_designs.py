"""The parts of a design beside its translation, as commands tell and change them."""

import json

import pytest

from nicscope.cli.app import main
from nicscope.config.design import PARTS, design_names, load_design
from nicscope.config.platform import load_platform, platform_names
from refusals import refused_command

TRACE = ["simulate", "bundled:redis_server", "--requests", "40", "--design", "utlb", "--json"]


def told(capsys, *arguments):
    assert main([*map(str, arguments)]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", design_names())
def test_a_design_shows_each_part_with_its_evidence(capsys, name):
    design = load_design(name)
    plain = told(capsys, "designs", "show", name, "--json")["parts"]
    assert main(["designs", "show", name]) == 0
    text = capsys.readouterr().out

    assert {part["name"]: part["value"] for part in plain} == design.parts()
    for part in plain:
        assert part["evidence"] == design.part_origins()[part["name"]].evidence
        row = next(line for line in text.splitlines() if line.split()[:1] == [part["name"]])
        assert (part["value"] or "not said") in row
        assert part["evidence"] in row


def test_the_list_of_designs_has_their_parts(capsys):
    for each in told(capsys, "designs", "--json"):
        assert each["parts"] == load_design(each["name"]).parts()


@pytest.mark.parametrize("name", platform_names())
def test_a_platform_shows_who_serves_and_the_machine_around_it(capsys, name):
    platform = load_platform(name)
    plain = told(capsys, "platforms", "show", name, "--json")
    assert main(["platforms", "show", name]) == 0
    text = capsys.readouterr().out

    assert plain["served_by"] == platform.served_by
    assert ("ports are served by the kernel" in text) == (platform.served_by == "kernel")
    assert {one["name"]: one["value"] for one in plain["machine"]} == {
        key: one.value for key, one in platform.machine.items()
    }
    assert all(f"\n{key} " in text for key in platform.machine)


def test_the_delivery_that_is_set_is_what_a_trace_is_delivered_by(capsys):
    (adaptive,) = told(capsys, *TRACE)["results"]
    (stored,) = told(capsys, *TRACE, "--set", "delivery=store-and-forward")["results"]

    assert (adaptive["parts"]["delivery"], stored["parts"]["delivery"]) == (
        "adaptive",
        "store-and-forward",
    )
    assert stored["elapsed_us"] != adaptive["elapsed_us"]
    assert stored["total"] == adaptive["total"]


@pytest.mark.parametrize("way", ["pio", "pio-combined", "dma", "cni"])
def test_a_way_over_which_a_trace_does_not_run_is_refused_before_it_is_read(capsys, way):
    words = ["simulate", "bundled:redis_server", "--design", "utlb", "--platform", "utlb-edt"]
    refused_command(capsys, [*words, "--set", f"way={way}"], "a trace", "program", "processor")


@pytest.mark.parametrize("key", PARTS)
def test_where_lookups_alone_are_counted_no_part_is_set(capsys, key):
    choice = f"{key}={PARTS[key].choices[0]}"

    words = ["replay", "bundled:redis_server", "--design", "utlb", "--set", choice]
    refused_command(capsys, words, f"--set {choice}: {key} changes nothing")


def test_a_transport_is_not_set_for_a_trace_in_virtual_time(capsys):
    words = [*TRACE, "--set", "transport=unreliable"]
    refused_command(capsys, words, "served_by and delivery and way")
