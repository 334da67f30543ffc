"""``nicscope designs`` and ``nicscope platforms`` as a user and as a program see them."""

import json
import subprocess
import sys

import pytest

from nicscope.cli.app import main
from nicscope.config.costs import COSTS
from nicscope.config.design import design_names, load_design
from nicscope.config.platform import load_platform, platform_names
from refusals import refused_command

SHOWN = [("designs", name) for name in design_names()]
SHOWN += [("platforms", name) for name in platform_names()]


@pytest.mark.parametrize(
    ("what", "names"), [("designs", design_names()), ("platforms", platform_names())]
)
def test_the_list_names_everything_in_the_catalog(capsys, what, names):
    assert main([what]) == 0
    table = capsys.readouterr().out
    listed = [line.split()[0] for line in table.splitlines() if line[0] not in " ─"]
    assert listed == ["name", *names]


def test_the_lists_as_json_hold_settings_of_designs_and_count_evidence_of_platforms(capsys):
    assert main(["designs", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [design["name"] for design in listed] == design_names()
    for design in listed:
        assert design.items() >= load_design(design["name"]).to_json().items()
        assert design["papers"]
    assert main(["platforms", "--json"]) == 0
    for platform in json.loads(capsys.readouterr().out):
        assert sum(platform["evidence"].values()) == platform["costs"]


@pytest.mark.parametrize(("what", "name"), SHOWN)
def test_whatever_is_shown_fits_a_hundred_columns_and_names_every_source(capsys, what, name):
    assert main([what, "show", name]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 100
    loaded = load_design(name) if what == "designs" else load_platform(name)
    for key in loaded.sources:
        assert f"\n{key}: " in shown


@pytest.mark.parametrize("name", design_names())
def test_a_design_as_json_has_value_unit_evidence_and_source_of_every_setting(capsys, name):
    assert main(["designs", "show", name, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    design = load_design(name)
    values = {setting["name"]: setting["value"] for setting in shown["settings"]}
    assert {"name": name, "scheme": shown["scheme"], **values} == design.to_json()
    for setting in shown["settings"]:
        assert (setting["evidence"] is None) == (setting["value"] is None)
        assert (setting["source"] is None) == (setting["value"] is None)


@pytest.mark.parametrize("name", platform_names())
def test_a_platform_as_json_says_of_every_cost_what_is_known(capsys, name):
    assert main(["platforms", "show", name, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    stated = [cost["name"] for cost in shown["costs"]]
    assert sorted([*stated, *shown["not_applicable"], *shown["not_stated"]]) == sorted(COSTS)
    for cost in shown["costs"]:
        assert (cost["cost_us"] is None) != (cost["cost_us_by_size"] is None)
        assert cost["evidence"]
        assert cost["source"]


def test_a_range_is_shown_as_a_pair(capsys):
    main(["platforms", "show", "mini-cluster", "--json"])
    costs = json.loads(capsys.readouterr().out)["costs"]
    assert {cost["name"]: cost["cost_us"] for cost in costs if cost["evidence"] == "published"} == {
        "miss_delay": [0, 50],
    }
    main(["platforms", "show", "mini-cluster"])
    assert "0 to 50" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("what", "word", "nearest"),
    [("designs", "utl", "utlb"), ("platforms", "utlb-proto", "utlb-prototype")],
)
def test_an_unknown_name_is_one_line_on_stderr_and_exit_status_2(capsys, what, word, nearest):
    refused_command(capsys, [what, "show", word], repr(word), repr(nearest))


def test_a_design_file_of_the_users_own_is_shown_with_its_limits(capsys, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('scheme = "utlb"\nentries = 64\npin_limit = 9\n')
    assert main(["designs", "show", str(file)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["pin_limit", "9"] in [row[:2] for row in rows]


def test_listing_imports_nothing_heavy():
    program = (
        "import sys; from nicscope.cli.app import main; main(['designs']); main(['platforms']);"
        "print([name for name in ('numba', 'numpy', 'pyarrow', 'matplotlib') if name in"
        " sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == "[]\n"
