from decimal import Decimal

import pytest

from nicscope.errors import StudyError
from nicscope.studies.reproduce.harness import choose, load_papers, reproduce
from nicscope.studies.reproduce.verdict import (
    Basis,
    ExpectedPoint,
    ExpectedShape,
    Item,
    Outcome,
    Paper,
    PointGroup,
    judge,
)
from refusals import refused


def toy_group(quantity, published, basis):
    constants = ["toy.cost"] if basis is Basis.FITTED else []
    return PointGroup(
        quantity, "us", Decimal(published), Decimal("0.5"), "half a digit", basis, "toy", constants
    )


TOY = {
    "toy": Paper(
        "toy",
        "A toy",
        {
            "table1": Item(
                "1",
                "numbers",
                points=[
                    toy_group("near", "10", Basis.PREDICTED),
                    toy_group("far", "10", Basis.FITTED),
                    toy_group("same", "3", Basis.IDENTITY),
                ],
                shapes=[
                    ExpectedShape("up", "it rises", Basis.PREDICTED, "toy"),
                    ExpectedShape("down", "it falls", Basis.IDENTITY, "toy"),
                ],
            ),
            "figure1": Item("2", "a curve", missing="needs a curve"),
        },
    ),
    "other": Paper("other", "Another", {"table1": Item("1", "half", missing="needs the rest")}),
}


def outcome():
    found = Outcome()
    found.point("near", "us", 10.4)
    found.point("far", "us", 11.0)
    found.point("same", "us", 3)
    found.shape("up", True, "1, 2")
    found.shape("down", False, "2, 1")
    return found


def find_toy(paper, item):
    assert (paper, item) == ("toy", "table1")
    return lambda _: outcome()


def test_misses_stay_visible_and_identities_are_not_counted():
    heard = []
    found = reproduce([], TOY, find_toy, heard.append)

    assert heard == ["toy/table1"]
    assert [(point.quantity, point.ok) for point in found.points] == [
        ("near us", True),
        ("far us", False),
        ("same us", True),
    ]
    assert [(shape.statement, shape.ok) for shape in found.shapes] == [
        ("it rises", True),
        ("it falls", False),
    ]
    assert found.misses()
    told = found.to_json()
    assert list(told) == [
        *("points", "shapes", "met", "missing", "studies", "baselines", "tables", "summary")
    ]
    assert {name: count for name, count in told["summary"].items() if count != 1} == {
        **dict.fromkeys(("points", "identities", "shapes", "new_misses", "missing"), 2),
        **dict.fromkeys(("known_misses", "studies"), 0),
    }
    ones = {"ok", "predicted", "fitted", "shapes_ok", "shapes_predicted"}
    assert ones < set(told["summary"])
    assert told["points"][1] == {
        "paper": "toy",
        "id": "table1",
        "quantity": "far us",
        "published": 10.0,
        "reproduced": 11.0,
        "relative_error": 0.1,
        "tolerance": 0.05,
        "basis": "fitted",
        "because": "toy",
        "baseline": None,
        "ok": False,
        "known_miss": None,
    }
    assert list(told["shapes"][0]) == [
        *("paper", "id", "name", "statement", "ok", "evidence", "basis", "because", "known_miss")
    ]
    assert told["missing"][0] == {"paper": "toy", "id": "figure1", "why": "needs a curve"}


def test_an_experiment_must_answer_every_expectation_and_nothing_else():
    def silent(paper, item):  # noqa: ARG001
        return lambda _: Outcome()

    with pytest.raises(RuntimeError, match="toy/table1: expectation and experiment differ"):
        reproduce(["toy/table1"], TOY, silent)


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        ([], [("toy", "table1"), ("toy", "figure1"), ("other", "table1")]),
        (["other", "toy/figure1"], [("toy", "figure1"), ("other", "table1")]),
        (["toy/table1", "toy", "toy"], [("toy", "table1"), ("toy", "figure1")]),
    ],
)
def test_items_are_chosen_once_in_the_catalogs_order(wanted, chosen):
    assert choose(TOY, wanted) == chosen


@pytest.mark.parametrize(
    ("wanted", "facts"),
    [
        ("utbl", ["'utbl'", "'utlb'"]),
        ("utlb/tabel6", ["'tabel6' in utlb", "'table6'"]),
        ("utlb/", ["'' in utlb", "table6"]),
        ("", ["''", "edt, mini, today, trapeze, unet_mm, utlb"]),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(wanted, facts):
    with refused(StudyError, *facts):
        choose(load_papers(), [wanted])


@pytest.mark.parametrize(
    ("published", "tolerance", "reproduced", "ok"),
    [
        ("9.0", "0.05", "8.95", True),  # a rounding tie is within half a digit
        ("9.0", "0.05", "8.9499", False),
        ("9.0", "0.05", "9.05", True),
        ("9.0", "0", "9.0", True),
        ("0", "0.005", "0.004", True),
        ("0", "0.005", "-0.006", False),
    ],
)
def test_a_number_is_ok_up_to_its_tolerance(published, tolerance, reproduced, ok):
    expected = ExpectedPoint(
        "x us", Decimal(published), Decimal(tolerance), "", Basis.PREDICTED, ""
    )

    point = judge("toy", "table1", expected, Decimal(reproduced))

    assert point.ok is ok
    if published != "0":
        assert point.relative_error is not None
        assert (abs(point.relative_error) <= point.tolerance) is ok
    else:
        assert point.relative_error is None


def test_binary_noise_does_not_decide_a_tie():
    found = Outcome()
    found.point("x", "us", 0.5 + 27 * 0.25 + 0.8 + 1.8 * 0.5)  # 8.95 and some bits

    assert found.values["x us"] == Decimal("8.95")
