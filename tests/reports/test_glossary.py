"""One glossary: every heading of every table means something, and every column one thing."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import every_table as every
import pyarrow as pa
import pytest

from nicscope.cli.app import main
from nicscope.config.glossary import column_of, columns, meaning_of, terms
from nicscope.reports.explaining import headings_of
from nicscope.reports.printing import Note
from nicscope.reports.table import Rows
from nicscope.studies.reproduce.harness import find_study, study_names

DOCS = Path(__file__).parents[2] / "docs"

# Headings that are data: names of programs whose numbers stand below.
NAMES = {"Barnes", "FFT", "LU", "Radix", "Raytrace", "Volrend", "Water", every.LONG}


def test_every_heading_of_every_table_is_explained(reports):
    unknown = {
        (report.topic, heading)
        for report in reports
        for heading in set(headings_of(report.parts())) - NAMES
        if meaning_of(heading, report.topic) is None
    }

    assert len(reports) > 20
    assert unknown == set()


def test_every_column_of_every_table_for_programs_has_a_unit_and_a_meaning(reports):
    unknown = {
        (report.topic, name, column)
        for report in reports
        for name, table in report.tables()
        for column in table.column_names
        if column_of(column) is None
    }

    assert unknown == set()


def test_a_column_holds_one_type_wherever_it_is_and_numbers_are_numbers(reports):
    kinds: dict[str, set[str]] = {}
    for report in reports:
        for _, table in report.tables():
            for field in table.schema:
                kind = "number" if pa.types.is_integer(field.type) else str(field.type)
                kinds.setdefault(field.name, set()).add("number" if kind == "double" else kind)

    assert {name: kind for name, kind in kinds.items() if len(kind) > 1} == {}
    for name, [kind] in kinds.items():
        assert (kind == "number") >= bool(column_of(name).unit), name


ENDINGS = {"_bytes": "bytes", "_ps": "ps", "_us": "us", "_pages": "pages"}


def test_a_units_name_in_a_column_is_its_unit():
    for name, column in columns().items():
        if name.startswith("/"):
            continue
        for ending, unit in (
            ("_bytes", "bytes"),
            ("_ps", "ps"),
            ("_us", "us"),
            ("_pages", "pages"),
        ):
            if name.endswith(ending):
                assert column.unit == unit, name


def test_each_measure_of_each_study_is_a_column_of_the_glossary():
    for paper, item in study_names():
        layout = find_study(paper, item).layout
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


def test_each_term_is_explained_once_and_below_the_tables(reports):
    for report in reports:
        lines = [str(part) for part in report.parts()]
        told = list(report.printed(explain=True))
        notes = [part for part in told if isinstance(part, Note)]
        mine = [note for note in notes if any(term.means in note.text for term in terms().values())]
        names = [note.text.partition(":")[0] for note in mine]
        assert len(names) == len(set(names)), type(report).__name__
        headings = headings_of(report.parts())
        assert bool(names) == bool(headings), type(report).__name__
        for heading in {*headings} - NAMES:  # each is found as the table has it
            assert any(heading in name for name in names), (type(report).__name__, heading)
        if mine:
            tables = [place for place, part in enumerate(told) if isinstance(part, Rows)]
            assert told.index(mine[0]) > max(tables)
        assert lines


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
