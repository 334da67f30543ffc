"""Files that ``designs new`` and ``platforms new`` print, and what files of a user's may say."""

import importlib.util
import json
import tomllib
from pathlib import Path

import msgspec
import numpy as np
import pytest

from nicscope.cli.app import main
from nicscope.config.costs import COSTS, Evidence
from nicscope.config.design import PARTS, SCHEMES, design_names, load_design
from nicscope.config.platform import MACHINE, load_platform, platform_names
from nicscope.reports.template import design_file, platform_file
from nicscope.studies.pricing import charged_by, cost_uses
from nicscope.traces.schema import TraceMetadata
from nicscope.traces.writer import write_trace

DOCS = Path(__file__).parents[2] / "docs"
_spec = importlib.util.spec_from_file_location("costs_of_the_page", DOCS / "costs.py")
costs_page = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(costs_page)
CHANGED = "utlb-prototype@ni_mhz=66,host_mhz=600,nic_memory_bytes=3K"


def written(tmp_path, text, name="mine"):
    path = tmp_path / f"{name}.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", [*platform_names(), CHANGED])
def test_a_new_platform_is_the_one_that_it_was_begun_from_to_the_last_word(name, tmp_path):
    before = load_platform(name)

    after = load_platform(written(tmp_path, platform_file(before)))

    # What was combined is spelt out; nothing that costs anything asks which of whose it was.
    alike = {"name": before.name, "combines": before.combines}
    assert msgspec.structs.replace(after, **alike) == before
    assert list(after.costs) == list(before.costs)


@pytest.mark.parametrize("name", design_names())
def test_a_new_design_is_the_one_that_it_was_begun_from_to_the_last_word(name, tmp_path):
    before = load_design(name)

    after = load_design(written(tmp_path, design_file(before)))

    assert msgspec.structs.replace(after, name=before.name) == before


def test_texts_that_toml_would_take_for_something_else_come_back(tmp_path):
    odd = 'a "quote", a \\ backslash, a\nline, a\ttab, \x7f, é and # hash'
    base = load_platform("utlb-prototype")
    sources = {**base.sources, "A B. C": odd}
    before = msgspec.structs.replace(base, title=odd, description=odd, sources=sources)

    after = load_platform(written(tmp_path, platform_file(before)))

    assert (after.title, after.description, after.sources) == (odd, odd, sources)


@pytest.mark.parametrize("name", platform_names())
def test_a_platforms_file_names_every_cost_and_parameter_and_who_asks_for_it(name):
    text = platform_file(load_platform(name))

    lines = text.splitlines()
    begin, end = lines.index("[costs]"), lines.index("[not_applicable]")
    for cost, kind in COSTS.items():
        [place] = [
            number
            for number in range(begin, end)
            if lines[number].removeprefix("# ").startswith(f"{cost} = ")
        ] or [None]
        if place is None:
            assert cost in load_platform(name).not_applicable
        else:
            assert kind.meaning in lines[place - 1]
            assert f"Used by: {charged_by(cost)}" in lines[place - 1]
    for word in MACHINE:
        assert any(line.removeprefix("# ").startswith(f"{word} = ") for line in lines)


@pytest.mark.parametrize("name", design_names())
def test_a_designs_file_names_every_setting_of_its_scheme_and_every_part(name):
    lines = design_file(load_design(name)).splitlines()

    for key in (*SCHEMES[load_design(name).scheme].uses, *PARTS):
        assert sum(line.removeprefix("# ").startswith(f"{key} = ") for line in lines) == 1


@pytest.mark.parametrize("kind", ["designs", "platforms"])
def test_the_command_prints_the_file_and_nothing_else(kind, capsys, tmp_path):
    name = {"designs": "mini", "platforms": "mini-cluster"}[kind]
    assert main([kind, "new", "--from", name]) == 0
    out, err = capsys.readouterr()

    assert err == ""
    path = written(tmp_path, out)
    assert tomllib.loads(out)["title"]
    shown = []
    for each in (name, str(path)):
        assert main([kind, "show", each, "--json"]) == 0
        shown.append({**json.loads(capsys.readouterr().out), "name": ""})
    assert shown[0] == shown[1]


def test_what_a_comment_offers_can_be_stated_as_it_stands(tmp_path):
    lines = platform_file(load_platform("linux-host")).splitlines()
    offered = [line for line in lines if line.startswith("# ") and " = " in line and "  #" in line]
    assert len(offered) > 20
    text = "\n".join(
        line.removeprefix("# ").partition("  #")[0] if line in offered else line for line in lines
    )

    found = load_platform(written(tmp_path, text))

    assert set(found.costs) | set(found.not_applicable) == set(COSTS)


@pytest.mark.parametrize("name", [name for name in design_names() if name != "via-static"])
def test_a_copied_design_on_a_copied_platform_prices_a_replay_the_same(name, tmp_path, capsys):
    design, trace = load_design(name), str(tmp_path / "t.parquet")
    places = np.arange(200)
    columns = {
        "time_ns": np.zeros(200, np.int64),
        "node": (places % 2).astype(np.int32),
        "pid": np.full(200, 7, np.int32),
        "op": np.where(places % 3 == 0, 3, 0).astype(np.uint8),
        "address": (4096 * (places * places % 97)).astype(np.uint64),
        "length": (100 + 3000 * (places % 4)).astype(np.uint32),
    }
    write_trace(Path(trace), columns, TraceMetadata())
    written(tmp_path, platform_file(load_platform(design.platform)), "prices")
    text = design_file(design).replace(f'"{design.platform}"', '"prices.toml"')
    mine = written(tmp_path, text, name)
    found = []
    for each in (name, str(mine)):
        assert main(["replay", trace, "--design", each, "--no-kinds", "--json"]) == 0
        # Reasons name the platform, which the copy's file has given another name.
        one = json.loads(capsys.readouterr().out.replace("prices", design.platform))
        assert one["cost_us"]["platform"] == design.platform
        del one["repeat"]
        found.append(one)
    assert found[0] == found[1]
    assert found[0]["total"]["lookups"] > 200


FLAT = """
[costs]
user_pin = "27us"
user_unpin = { value = 25, unit = "us", evidence = "assumed", source = "assumed: all alike" }
ni_miss = { at = [1], value = [1.8], unit = "us", evidence = "assumed", source = "assumed: one" }
ni_dma = { at = [1], value = 1.5, unit = "us", evidence = "assumed", source = "assumed: one" }
copy_per_byte = "13.5ns/B"

[machine]
nic_memory_bytes = "512K"
ni_mhz = 33
"""


def test_a_table_of_one_row_is_a_scalar_and_a_bare_number_is_assumed(tmp_path):
    found = load_platform(written(tmp_path, FLAT))

    us = {"user_pin": 27, "user_unpin": 25, "ni_miss": 1.8, "ni_dma": 1.5}
    for name, each in us.items():
        cost = found.costs[name]
        assert cost.points == ()
        assert [cost.each(size)[0] for size in (1, 16, 1000)] == [each * 10**6] * 3
        assert cost.evidence_at(7) is Evidence.ASSUMED
    assert found.costs["copy_per_byte"].low_ps == 13_500
    assert found.machine["nic_memory_bytes"].value == 512 << 10
    assert found.machine["ni_mhz"].value == 33
    again = load_platform(written(tmp_path, platform_file(found), "again"))
    assert msgspec.structs.replace(again, name="mine") == found


def test_what_a_file_names_lies_beside_it_wherever_one_is(tmp_path, monkeypatch):
    folder = tmp_path / "mine"
    folder.mkdir()
    written(folder, '[costs]\nuser_pin = "27us"\n', "prices")
    design = written(folder, 'scheme = "static"\nentries = 4\nplatform = "prices.toml"\n', "design")
    for where, called in ((tmp_path, "mine/design.toml"), (folder, "design.toml"), ("/", design)):
        monkeypatch.chdir(where)
        named = load_design(called).platform
        assert load_platform(named).costs["user_pin"].low_ps == 27_000_000
    design.write_text(f'scheme = "static"\nentries = 4\nplatform = "{folder}/prices.toml"\n')
    assert load_design(design).platform == f"{folder}/prices.toml"
    design.write_text('scheme = "static"\nentries = 4\nplatform = "utlb-prototype"\n')
    assert load_design(design).platform == "utlb-prototype"
    copied = written(tmp_path, design_file(load_design(design)), "copied")
    assert load_design(copied).platform == "utlb-prototype"


def test_every_cost_is_charged_by_somebody():
    assert {name for name, uses in cost_uses().items() if not uses} <= {"retransmission"}


def test_the_page_of_costs_is_what_charges_them():
    assert (DOCS / "costs.md").read_text() == costs_page.page(), "run python docs/costs.py --write"
