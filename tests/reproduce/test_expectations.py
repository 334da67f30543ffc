import ast
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from nicscope.config import toml_files
from nicscope.errors import StudyError
from nicscope.studies.reproduce import experiments
from nicscope.studies.reproduce.traced.measuring import find_study
from nicscope.studies.reproduce.verdict import Basis, PointGroup, load_paper, paper_keys
from published_items import experiment_names, study_names

GROUP = {
    "quantity": "pin",
    "unit": "us",
    "at": {"host": "a", "pages": [1, 2]},
    "published": [27, Decimal("30.5")],
    "tolerance": Decimal("0.5"),
    "why": "print",
    "basis": "fitted",
    "because": "pin was chosen by them",
    "constants": ["a.pin"],
}


def group(**changes):
    return msgspec.convert({**GROUP, **changes}, PointGroup)


def test_a_group_is_one_point_per_place_on_its_axis():
    first, second = group().points()

    assert first.quantity == "pin[host=a, pages=1] us"
    assert (second.published, second.tolerance) == (Decimal("30.5"), Decimal("0.5"))
    assert second.basis is Basis.FITTED
    assert [point.tolerance for point in group(tolerance=[1, 2]).points()] == [1, 2]


@pytest.mark.parametrize("changes", [{"published": [27]}, {"tolerance": [1, 2, 3]}])
def test_lists_of_different_lengths_are_refused(changes):
    with pytest.raises(ValueError, match="zip"):
        list(group(**changes).points())


def test_a_file_with_an_unknown_key_is_refused_with_its_place(tmp_path, monkeypatch):
    folder = tmp_path / "published"
    folder.mkdir()
    (folder / "toy.toml").write_text('[table1]\nwhere = "1"\nwhat = "x"\ntolerence = 2\n')
    monkeypatch.setattr(toml_files, "CATALOG", tmp_path)

    with pytest.raises(StudyError, match=r"published 'toy': table1: .*tolerence"):
        load_paper("toy")


def test_all_papers_and_what_is_measured_today_are_in_the_catalog():
    assert paper_keys() == ["edt", "mini", "today", "trapeze", "unet_mm", "utlb"]


@pytest.mark.parametrize("key", paper_keys())
def test_every_item_is_reproduced_or_waits_and_what_is_expected_is_defended(key):
    for name, item in load_paper(key).items.items():
        assert item.has_expectations() or item.missing or item.study, name
        assert not (item.timed and not item.study), name
        points = item.expected_points()
        assert all(point.why and point.tolerance >= 0 for point in points)
        names = [point.quantity for point in points] + [shape.id for shape in item.shapes]
        assert len(set(names)) == len(names)


def test_every_item_that_is_judged_has_an_experiment_or_a_study_and_no_other_stands():
    folder = Path(experiments.__file__).parent
    there = {
        (path.relative_to(folder).parts[0].removesuffix(".py"), node.name)
        for path in folder.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
        and [given.arg for given in node.args.args] == ["outcome", "item"]
        and not node.name.startswith("_")
    }

    assert there == experiment_names()
    assert all(find_study(*one).rows for one in study_names())
