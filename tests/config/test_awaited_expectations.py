"""Expectations that were frozen before their experiments: well formed, and not yet turned on."""

from __future__ import annotations

import pytest

from nicscope.config.shelf import CATALOG
from nicscope.studies.reproduce.expectation import load_paper, paper_keys
from nicscope.studies.reproduce.registry import experiment_names

AWAITED = CATALOG / "published" / "awaited"
FILES = sorted(path.stem for path in AWAITED.glob("*.toml"))


def awaited(key):
    """Items of one file of ``awaited``, read as a paper is read."""
    return load_paper(str(AWAITED / f"{key}.toml")).items


def test_awaited_files_bear_the_names_of_papers():
    assert set(FILES) <= set(paper_keys())


@pytest.mark.parametrize("key", FILES)
def test_an_awaited_item_is_missing_in_its_paper_and_has_no_experiment(key):
    known = load_paper(key).items
    for name, item in awaited(key).items():
        assert item.has_expectations(), name
        assert known[name].missing, name
        assert not known[name].has_expectations(), name
        assert (known[name].where, known[name].what) == (item.where, item.what) or name in (
            "figure4",
            "miss_penalty",
        )
        assert (key, name) not in experiment_names(), name


@pytest.mark.parametrize("key", FILES)
def test_awaited_numbers_are_defended_and_named_once(key):
    for item in awaited(key).values():
        points = item.expected_points()
        assert all(point.why and point.tolerance >= 0 for point in points)
        names = [point.quantity for point in points] + [shape.id for shape in item.shapes]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("key", FILES)
def test_an_awaited_tolerance_is_no_wider_than_two_percent_of_a_constant(key):
    for item in awaited(key).values():
        for point in item.expected_points():
            if point.basis == "identity":
                assert point.tolerance <= point.published * 2 / 100, point.quantity
