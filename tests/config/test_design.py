"""Design files and ``--set``: what is read, and the one line that says what is wrong."""

from __future__ import annotations

import re
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


def complaint(tmp_path: Path, text: str) -> str:
    """The one line about a design file, less the file's name, which it must begin with."""
    file = written(tmp_path, text)
    with pytest.raises(DesignError) as caught:
        load_design(file)
    message = str(caught.value)
    assert message.startswith(f"{file}: ")
    assert "\n" not in message
    return message.removeprefix(f"{file}: ")


def refusal(design: str, *assignments: str) -> str:
    with pytest.raises(DesignError) as caught:
        with_settings(load_design(design), assignments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


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
    assert complaint(tmp_path, f'scheme = "{scheme}"\n') == (
        f"scheme {scheme.value!r} needs {key}; give it a value"
    )


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("entries = 64", "has no scheme; choose from handle, interrupt, pinned,"),
        ('scheme = "utbl"', "no scheme 'utbl'; did you mean 'utlb'?"),
        ('scheme = "utlb"\nentris = 64', "unknown key 'entris'; did you mean 'entries'?"),
        ('scheme = "utlb"\nline = 4', "scheme 'utlb' does not use 'line'; it uses entries, ways,"),
        ('scheme = "utlb"\nentries = 3000', "entries must be a power of two, got 3000"),
        ('scheme = "utlb"\nentries = 0', "entries must be from 1 to 67108864, got 0"),
        ('scheme = "utlb"\nentries = 64.5', "entries must be a whole number, got 64.5"),
        ('scheme = "utlb"\nentries = true', "entries must be a whole number, got True"),
        ('scheme = "utlb"\nentries = [1]', "entries must be a whole number, got [1]"),
        (
            'scheme = "utlb"\nentries = 64\nways = 128',
            "ways (128) must not exceed entries (64)",
        ),
        (
            'scheme = "handle"\nentries = 64\nways = 4\nline = 32',
            "line (32) times ways (4) must not exceed entries (64)",
        ),
        (
            'scheme = "utlb"\nentries = 64\nindex_offset = 1',
            "index_offset must be true or false, got 1",
        ),
        (
            'scheme = "utlb"\nentries = 64\nreplacement = "lur"',
            "no replacement 'lur'; did you mean 'lru'?",
        ),
        ('scheme = "utlb"\nentries = 64\nprefetch = 1025', "prefetch must be from 1 to 1024,"),
        ('scheme = "pinned"\narea_bytes = "64 kilos"', "area_bytes must be a whole number of"),
        ('scheme = "static"\nentries = 1\npage_size = 1000', "page_size must be a power of two,"),
        ('scheme = "static"\nentries = 1\npage_size = 256', "page_size must be from 512 to"),
        ('scheme = "static"\nentries = "none"', "entries is needed by scheme 'static'"),
        ('scheme = "static"\nentries = {}', "entries has no value"),
        ('scheme = "static"\nentries = { value = 1 }', "entries has no evidence; choose from"),
        (
            'scheme = "static"\nentries = { value = 1, evidence = "heard" }',
            "entries has unknown evidence 'heard'; choose from published,",
        ),
        (
            'scheme = "static"\nentries = { value = 1, evidence = "assumed" }',
            "entries has no source; cite one, or say why if it is assumed",
        ),
        (
            'scheme = "static"\nentries = { value = 1, evidence = "derived", source = "P, 3" }',
            "entries cites 'P', which [sources] lacks",
        ),
        ('scheme = "static"\nentries = { valeu = 1 }', "entries: unknown key 'valeu'; did you"),
        ('title = 3\nscheme = "static"\nentries = 1', "title must be text, got 3"),
        ('sources = 3\nscheme = "static"\nentries = 1', "sources must be a table of texts, got 3"),
        ('scheme = "static"\nentries = ', "is not TOML: "),
        ("entries = 1e999999999999999999999", "is not TOML: a number is too large to read"),
        (f"entries = {'9' * 5000}", "is not TOML: "),
    ],
)
def test_a_bad_design_file_is_refused_by_one_line_that_names_file_and_key(tmp_path, text, message):
    assert complaint(tmp_path, text).startswith(message)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    missing = tmp_path / "missing.toml"
    with pytest.raises(DesignError, match="no such file"):
        load_design(missing)
    with pytest.raises(DesignError, match="is a folder; name a file"):
        load_design(tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(DesignError, match="is not a text file in UTF-8"):
        load_design(binary)


def test_an_unknown_name_suggests_the_nearest_and_a_file():
    with pytest.raises(DesignError, match=re.escape("no design 'utbl'; did you mean 'utlb'? (or")):
        load_design("utbl")


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


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("entris=1", "--set entris=1: unknown key 'entris'; did you mean 'entries'?"),
        ("entries=3", "--set entries=3: entries must be a power of two, got 3"),
        ("entries=-4", "--set entries=-4: entries must be from 1 to 67108864, got -4"),
        ("entries=many", "--set entries=many: entries must be a whole number, got 'many'"),
        ("entries=64KiB", "--set entries=64KiB: entries must be a whole number, got '64KiB'"),
        ("line=4", "--set line=4: scheme 'utlb' does not use 'line'; it uses entries, ways, "),
        ("ways=16384", "design 'utlb' as set: ways (16384) must not exceed entries (8192)"),
        ("scheme=tlb", "--set scheme=tlb: no scheme 'tlb'; did you mean 'utlb'?"),
        ("scheme=pinned", "design 'utlb' as set: scheme 'pinned' needs area_bytes;"),
        ("pin_limit=0", "--set pin_limit=0: pin_limit must be from 1 to "),
        ("entries", "--set entries: write it as KEY=VALUE, for instance entries=1024"),
        ("=4", "--set =4: write it as KEY=VALUE,"),
        ("entries=", "--set entries=: write it as KEY=VALUE,"),
        ("title=x", "--set title=x: unknown key 'title'"),
    ],
)
def test_a_bad_setting_is_refused_by_one_line_that_quotes_it(assignment, message):
    assert refusal("utlb", assignment).startswith(message)


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
