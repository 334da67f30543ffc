"""The parts of a design beside its translation, in files, on the command line and in JSON."""

from __future__ import annotations

import pytest

from nicscope.config.delivery import PARTS
from nicscope.config.design import design_names, load_design, with_settings
from nicscope.config.evidence import Evidence
from nicscope.config.platform import load_platform, platform_names

OLD = 'scheme = "utlb"\nentries = 64\nplatform = "utlb-prototype"\n'
COST = 'post = { value = 1, unit = "us", evidence = "assumed", source = "a guess" }'


def design_of(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return load_design(path)


def platform_of(tmp_path, text):
    path = tmp_path / "machine.toml"
    path.write_text(text)
    return load_platform(path)


def test_a_file_that_says_nothing_of_them_has_what_every_design_had(tmp_path):
    design = design_of(tmp_path, OLD)

    assert design.parts() == {
        "served_by": None,
        "delivery": "adaptive",
        "transport": None,
        "way": "pci",
    }
    assert design.served_on(load_platform("utlb-prototype")) == "nic"
    assert design.served_on(load_platform("dc21140-nt")) == "kernel"
    assert {one.evidence for one in design.part_origins().values()} == {Evidence.ASSUMED}


@pytest.mark.parametrize(
    ("key", "choice"), [(key, choice) for key, part in PARTS.items() for choice in part.choices]
)
def test_every_choice_can_be_written_in_a_file_and_set(tmp_path, key, choice):
    cell = f'{{ value = "{choice}", evidence = "published", source = "A, 3" }}'
    written = design_of(tmp_path, f'{OLD}{key} = {cell}\n[sources]\nA = "A paper"\n')
    changed = with_settings(design_of(tmp_path, OLD), [f"{key}={choice}"])

    assert written.parts()[key] == changed.parts()[key] == choice
    assert written.part_origins()[key].evidence is Evidence.PUBLISHED
    assert changed.part_origins()[key].source == f"--set {key}={choice}"
    assert written.settings() == changed.settings() == design_of(tmp_path, OLD).settings()


def test_parts_stay_when_the_scheme_changes():
    design = with_settings(load_design("utlb"), ["way=edt", "scheme=static"])

    assert (design.way, design.transport, design.scheme) == ("edt", "reliable", "static")


def test_every_design_of_the_catalog_says_its_parts_with_evidence():
    for name in design_names():
        design = load_design(name)
        said = set(PARTS) & set(design.origins)
        left = {"served_by"} if name == "unet" else {"transport"} if "unet" in name else set()
        assert set(PARTS) - said <= left | {"transport"} | (
            {"delivery"} if design.platform is None else set()
        ), name


@pytest.mark.parametrize("name", platform_names())
def test_a_machine_whose_kernel_serves_states_what_a_trap_costs(name):
    platform = load_platform(name)

    assert platform.served_by == "nic" or "trap" in platform.costs
    assert (platform.served_by_origin is None) == (platform.served_by == "nic")


def test_sizes_may_be_written_in_larger_units(tmp_path):
    evidence = "evidence = 'assumed', source = 'a guess'"
    text = f"[machine]\nl1_bytes = {{ value = 3, unit = 'KiB', {evidence} }}\n[costs]\n{COST}\n"

    assert platform_of(tmp_path, text).machine["l1_bytes"].value == 3072
