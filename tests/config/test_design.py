"""Design files and ``--set``: translation, and the parts beside it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.config.costs import Evidence
from nicscope.config.design import (
    PARTS,
    SCHEMES,
    SETTINGS,
    Replacement,
    Scheme,
    design_names,
    load_design,
    with_settings,
)
from nicscope.config.platform import load_platform, platform_names
from nicscope.errors import DesignError
from refusals import refused

# The least that each scheme must be told.
LEAST = dict.fromkeys(Scheme, "entries = 64") | {
    Scheme.PINNED: "area_bytes = 4096",
    Scheme.RNIC: "entries = 64\nmpt_entries = 4",
}


def design_of(tmp_path, text):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    return load_design(file)


def test_a_design_in_a_file_may_state_bare_values(tmp_path):
    design = design_of(tmp_path, 'scheme = "utlb"\nentries = 64\nreplacement = "mfu"\n')
    assert (design.name, design.title, design.scheme) == ("mine", "mine", Scheme.UTLB)
    assert (design.entries, design.replacement) == (64, Replacement.MFU)
    assert design.origins["entries"].evidence is Evidence.ASSUMED
    assert "mine.toml" in design.origins["entries"].source


@pytest.mark.parametrize("scheme", list(Scheme))
def test_fields_that_a_scheme_does_not_use_are_none(tmp_path, scheme):
    design = design_of(tmp_path, f'scheme = "{scheme}"\n{LEAST[scheme]}\n')
    for key in SETTINGS:
        if key not in SCHEMES[scheme].uses:
            assert getattr(design, key) is None
    assert list(design.to_json()) == ["name", "scheme", *SCHEMES[scheme].uses]


@pytest.mark.parametrize("scheme", list(Scheme))
def test_a_design_must_be_told_its_size(tmp_path, scheme):
    key = LEAST[scheme].split()[0]
    with refused(DesignError, key, f"scheme '{scheme}'"):
        design_of(tmp_path, f'scheme = "{scheme}"\n')


def test_an_absent_page_size_leaves_it_to_the_trace():
    design = load_design("utlb")
    assert design.page_size is None
    assert design.at_page_size(8192).page_size == 8192
    own = with_settings(design, ["page_size=4KiB"])
    assert own.at_page_size(8192).page_size == 4096


def test_a_number_with_evidence_carries_it(tmp_path):
    design = design_of(
        tmp_path,
        'scheme = "static"\n'
        'entries = { value = 7, evidence = "published", source = "P, Table 1" }\n'
        '[sources]\nP = "A paper"\n',
    )
    assert design.entries == 7
    told = design.origins["entries"].to_json()
    assert told == {"evidence": "published", "source": "P, Table 1"}


def test_settings_override_the_file_and_say_so():
    design = with_settings(
        load_design("utlb"),
        ["entries=1024", "ways=4", "index_offset=FALSE", "replacement=Random", "pin_limit=1_024"],
    )
    assert design.to_json() == load_design("utlb").to_json() | {
        "entries": 1024,
        "ways": 4,
        "index_offset": False,
        "replacement": "random",
        "pin_limit": 1024,
    }
    assert design.origins["entries"].source == "--set entries=1024"
    assert design.origins["prefetch"].evidence is Evidence.PUBLISHED


def test_the_last_of_two_values_for_one_setting_holds_and_none_removes_a_limit():
    assert with_settings(load_design("utlb"), ["entries=4", "entries=8"]).entries == 8
    limited = with_settings(load_design("utlb"), ["pin_limit=64"])
    assert with_settings(limited, ["pin_limit=none"]).pin_limit is None


def test_setting_the_scheme_keeps_what_both_schemes_use():
    # In whichever order: the scheme is settled first.
    design = with_settings(load_design("utlb"), ["line=64", "scheme=handle"])
    assert list(design.to_json()) == ["name", "scheme", *SCHEMES[Scheme.HANDLE].uses]
    kept = (design.name, design.scheme, design.entries, design.ways, design.line)
    assert kept == ("utlb", "handle", 8192, 1, 64)


@pytest.mark.parametrize("name", ["vmmc-static", "utlb-process"])
def test_a_plain_table_may_have_any_length(name):
    assert with_settings(load_design(name), ["entries=1000"]).entries == 1000


@given(entries=st.integers(-4, 2**28))
def test_a_cache_is_accepted_if_and_only_if_it_is_a_power_of_two_within_bounds(entries):
    fits = 1 <= entries <= 2**26 and entries & (entries - 1) == 0
    try:
        design = with_settings(load_design("unet-mm-pca200"), [f"entries={entries}"])
    except DesignError:
        assert not fits
    else:
        assert fits
        assert design.entries == entries


@pytest.mark.parametrize("name", design_names())
def test_a_design_survives_being_set_to_what_it_says(name):
    design = load_design(name)
    stated = design.to_json() | {"index_offset": str(design.index_offset)}
    again = [
        f"{key}={'none' if stated[key] is None else stated[key]}"
        for key in SCHEMES[design.scheme].uses
    ]
    assert with_settings(design, again).to_json() == design.to_json()


OLD = 'scheme = "utlb"\nentries = 64\nplatform = "utlb-prototype"\n'


def test_a_file_that_says_nothing_of_them_has_what_every_design_had(tmp_path):
    design = design_of(tmp_path, OLD)

    assert design.parts() == {
        "served_by": None,
        "delivery": "adaptive",
        "transport": None,
        "way": "pci",
    }
    assert load_platform("utlb-prototype").served_by == "nic"
    assert load_platform("dc21140-nt").served_by == "kernel"
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
