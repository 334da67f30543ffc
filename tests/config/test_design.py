"""Design files and ``--set``: what is read, and the one line that says what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.config.design import (
    Replacement,
    Scheme,
    design_names,
    load_design,
    with_settings,
)
from nicscope.config.evidence import Evidence
from nicscope.config.scheme import SETTINGS, USES
from nicscope.errors import DesignError
from refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

# The least that each scheme must be told.
LEAST = dict.fromkeys(Scheme, "entries = 64") | {
    Scheme.PINNED: "area_bytes = 4096",
    Scheme.RNIC: "entries = 64\nmpt_entries = 4",
}


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    return file


def test_a_design_in_a_file_may_state_bare_values(tmp_path):
    design = load_design(written(tmp_path, 'scheme = "utlb"\nentries = 64\nreplacement = "mfu"\n'))
    assert (design.name, design.title, design.scheme) == ("mine", "mine", Scheme.UTLB)
    assert (design.entries, design.replacement) == (64, Replacement.MFU)
    assert design.origins["entries"].evidence is Evidence.ASSUMED
    assert "mine.toml" in design.origins["entries"].source


@pytest.mark.parametrize("scheme", list(Scheme))
def test_fields_that_a_scheme_does_not_use_are_none(tmp_path, scheme):
    design = load_design(written(tmp_path, f'scheme = "{scheme}"\n{LEAST[scheme]}\n'))
    for key in SETTINGS:
        if key not in USES[scheme]:
            assert getattr(design, key) is None
    assert list(design.to_json()) == ["name", "scheme", *USES[scheme]]


@pytest.mark.parametrize("scheme", list(Scheme))
def test_a_design_must_be_told_its_size(tmp_path, scheme):
    key = LEAST[scheme].split()[0]
    with refused(DesignError, key, f"scheme '{scheme}'"):
        load_design(written(tmp_path, f'scheme = "{scheme}"\n'))


def test_an_absent_page_size_leaves_it_to_the_trace():
    design = load_design("utlb")
    assert design.page_size is None
    assert design.at_page_size(8192).page_size == 8192
    own = with_settings(design, ["page_size=4KiB"])
    assert own.at_page_size(8192).page_size == 4096


def test_a_number_with_evidence_carries_it(tmp_path):
    design = load_design(
        written(
            tmp_path,
            'scheme = "static"\n'
            'entries = { value = 7, evidence = "published", source = "P, Table 1" }\n'
            '[sources]\nP = "A paper"\n',
        )
    )
    assert design.entries == 7
    assert design.origins["entries"].to_json() == {
        "evidence": "published",
        "source": "P, Table 1",
    }


def test_settings_override_the_file_and_say_so():
    design = with_settings(
        load_design("utlb"),
        ["entries=1024", "ways=4", "index_offset=FALSE", "replacement=Random", "pin_limit=1_024"],
    )
    assert design.to_json() == {
        "name": "utlb",
        "scheme": "utlb",
        "entries": 1024,
        "ways": 4,
        "index_offset": False,
        "prefetch": 1,
        "prepin": 1,
        "pin_limit": 1024,
        "replacement": "random",
        "seed": 0,
        "page_size": None,
    }
    assert design.origins["entries"].source == "--set entries=1024"
    assert design.origins["prefetch"].evidence is Evidence.PUBLISHED


def test_the_last_of_two_values_for_one_setting_holds():
    assert with_settings(load_design("utlb"), ["entries=4", "entries=8"]).entries == 8


def test_none_removes_a_limit():
    limited = with_settings(load_design("utlb"), ["pin_limit=64"])
    assert with_settings(limited, ["pin_limit=none"]).pin_limit is None


@pytest.mark.parametrize(
    ("text", "area"), [("64KiB", 65536), ("64 kib", 65536), ("512", 512), ("2MiB", 2**21)]
)
def test_byte_sizes_may_carry_a_unit(text, area):
    assert with_settings(load_design("unet"), [f"area_bytes={text}"]).area_bytes == area


def test_setting_the_scheme_keeps_what_both_schemes_use():
    # In whichever order: the scheme is settled first.
    design = with_settings(load_design("utlb"), ["line=64", "scheme=handle"])
    assert design.to_json() == {
        "name": "utlb",
        "scheme": "handle",
        "entries": 8192,
        "ways": 1,
        "line": 64,
        "high_water": None,
        "page_size": None,
    }


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
        f"{key}={'none' if stated[key] is None else stated[key]}" for key in USES[design.scheme]
    ]
    assert with_settings(design, again).to_json() == design.to_json()
