"""``docs/designs.md`` and ``docs/platforms.md`` tell what the program does."""

import re
from pathlib import Path

import pytest

from nicscope.config.costs import COSTS
from nicscope.config.design import SCHEMES, SETTINGS, Scheme, load_design
from nicscope.config.platform import load_platform
from nicscope.studies.pricing import MODELS

DOCUMENTS = Path(__file__).parents[2] / "docs"
DESIGNS = (DOCUMENTS / "designs.md").read_text()
PLATFORMS = (DOCUMENTS / "platforms.md").read_text()


def example(document):
    found = re.search(r"```toml\n(.*?)```", document, re.DOTALL)
    assert found
    return found[1]


def row(document, scheme):
    return next(
        line
        for line in document.splitlines()
        if line.startswith("|") and f"`{scheme.value}`" in line.split("|")[1]
    )


def test_the_examples_of_files_load(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(example(DESIGNS))
    assert (load_design(file).entries, load_design(file).ways) == (1024, 4)
    file.write_text(example(PLATFORMS))
    assert len(load_platform(file).costs) == 4


def test_every_setting_is_in_the_table_of_settings():
    assert [key for key in SETTINGS if f"\n| `{key}` |" not in DESIGNS] == []


@pytest.mark.parametrize("scheme", list(Scheme))
def test_every_scheme_is_documented_with_its_own_settings(scheme):
    named = re.findall(r"`([a-z0-9_]+)`", row(DESIGNS, scheme).split("|")[2])
    assert named == [key for key in SCHEMES[scheme].uses if key != "page_size"]


@pytest.mark.parametrize("scheme", [scheme for scheme in Scheme if scheme != Scheme.UTLB_SHARED])
def test_every_cost_model_is_documented_with_its_costs(scheme):
    named = re.findall(r"`([a-z_]+)`", row(PLATFORMS, scheme).split("|")[2])
    charged = [step.terms[0].cost for step in MODELS[scheme]]
    assert sorted(name for name in named if name in COSTS) == sorted(charged)
