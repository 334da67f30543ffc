"""One glossary: every heading of every table means something, and every column one thing."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from nicscope.cli.app import main
from nicscope.config.glossary import column_of, columns, terms
from nicscope.studies.reproduce.harness import load_papers
from published_items import study_names

DOCS = Path(__file__).parents[2] / "docs"

ENDINGS = {"_bytes": "bytes", "_ps": "ps", "_us": "us", "_pages": "pages"}


def test_a_units_name_in_a_column_is_its_unit():
    for name, column in columns().items():
        if name.startswith("/"):
            continue
        for ending, unit in ENDINGS.items():
            if name.endswith(ending):
                assert column.unit == unit, name


def test_each_measure_of_each_study_is_a_column_of_the_glossary():
    for paper, item in study_names():
        layout = load_papers()[paper].items[item].table
        for name in (*(axis.key for axis in layout.axes), *layout.measures):
            assert column_of(name) is not None, (paper, item, name)


def test_a_heading_means_one_thing_to_each_kind_of_result():
    """What is for one topic stands before what is for all; no two are for the same."""
    for topic in {topic for term in terms().values() for topic in term.topic} | {""}:
        own: dict[str, list[str]] = {}
        for name, term in terms().items():
            if topic in term.topic or (not topic and not term.topic):
                for heading in {name, *term.headings}:
                    own.setdefault(heading, []).append(name)
        assert {heading: names for heading, names in own.items() if len(names) > 1} == {}, topic


def test_texts_are_sentences_and_sources_name_a_place():
    for name, term in terms().items():
        assert term.means[0].isupper(), name
        assert term.means.endswith("."), name
        assert not term.source or any(char.isdigit() for char in term.source), name


@pytest.mark.parametrize("command", ["replay", "curve", "size", "sweep", "simulate"])
def test_explaining_is_for_people_alone(command, capsys, tmp_path):
    options = {
        "size": ["--nic-memory", "1KiB"],
        "sweep": ["--design", "utlb", "--grid", "entries=4", "--out", str(tmp_path / "o.parquet")],
    }.get(command, [])

    status = main([command, "bundled:rsync_transfer", *options, "--explain", "--json"])

    assert status == 2
    assert "--explain is for people, --json for programs" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_page_of_outputs_shows_the_glossarys_columns():
    path = DOCS / "columns.py"
    spec = importlib.util.spec_from_file_location("columns_of_the_page", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)

    assert made.PAGE.read_text() == made.page(made.PAGE.read_text()), "docs/columns.py --write"
