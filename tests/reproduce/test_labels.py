"""Every number and statement is called what it is."""

import sys
from decimal import Decimal
from pathlib import Path

import pytest
from fitted_constants import (
    fitted_on_platforms,
    forget,
    numbers_of,
    platforms_of,
    shift,
)

import nicscope
from nicscope.studies.reproduce.baselines import BASELINES, by_hand
from nicscope.studies.reproduce.harness import find_experiment, load_papers, reproduce
from nicscope.studies.reproduce.verdict import (
    Basis,
    PointGroup,
    load_paper,
    paper_keys,
)
from published_items import experiment_names

PAPERS = load_papers()
MODULE = "<module>"
DRIVERS = str(Path(nicscope.__file__).parent / "drivers")
FITTED = sorted(
    (paper, name)
    for paper, loaded in PAPERS.items()
    for name, item in loaded.items.items()
    if any(group.basis is Basis.FITTED for group in item.points)
)


def constants_of(item):
    """By fitted constant of ``item``, the numbers that it was fitted to."""
    found = {}
    for group in item.points:
        for constant in group.constants:
            if "." not in constant:
                continue  # a choice of the model, in words, which is no number to move
            found.setdefault(constant, set()).update(point.quantity for point in group.points())
    return found


def predicts(item):
    """Whether any number or statement of it is a prediction."""
    return Basis.PREDICTED in {one.basis for one in (*item.points, *item.shapes, *item.cells)}


@pytest.fixture
def afresh():
    """Nothing is remembered from other tests, nor by them of this one."""
    forget()
    yield
    forget()


@pytest.mark.parametrize("key", paper_keys())
def test_all_has_a_label_and_a_reason_and_what_predicts_a_baseline_or_why_there_is_none(key):
    for name, item in PAPERS[key].items.items():
        for check in (*item.expected_points(), *item.shapes):
            assert check.basis in Basis, name
            assert len(check.because.split()) > 2, f"{name}: {check}"
        assert predicts(item) == (item.baseline is not None), name
        has_formula = (key, name) in BASELINES
        assert not (has_formula and str(item.baseline).startswith("none")), name


@pytest.mark.parametrize(("key", "name"), sorted(BASELINES))
def test_a_baseline_is_of_numbers_that_are_predicted(key, name):
    expected = {one.quantity: one.basis for one in PAPERS[key].items[name].expected_points()}

    found = by_hand(PAPERS[key], name)

    assert found
    assert {expected.get(quantity) for quantity in found} == {Basis.PREDICTED}


@pytest.mark.parametrize(
    ("key", "name"),
    [("mini", "figure3"), pytest.param("trapeze", "figure5", marks=pytest.mark.compiled)],
)
def test_a_baseline_stands_beside_its_number_and_its_formula_beside_its_item(key, name):
    found = reproduce([f"{key}/{name}"])

    shown = {one.quantity: one.baseline for one in found.points if one.baseline is not None}
    assert shown == {one: float(value) for one, value in by_hand(PAPERS[key], name).items()}
    assert found.baselines == {f"{key}/{name}": PAPERS[key].items[name].baseline}


@pytest.mark.parametrize(
    ("basis", "constants"),
    [(Basis.PREDICTED, ["toy.cost"]), (Basis.IDENTITY, ["toy.cost"]), (Basis.FITTED, [])],
)
def test_what_is_fitted_and_that_only_names_constants(basis, constants):
    half = Decimal("0.5")
    with pytest.raises(ValueError, match="constants"):
        PointGroup("x", "us", half, half, "print", basis, "toy", constants)


# Simulated message by message, again for every constant.
SIMULATED = {"edt", "today", "trapeze", "table1", "simulated_fast_path", "node_memory"}
QUICK = {"mini/figure3"}  # without the compiler


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.compiled)
        for name in sorted("/".join(pair) for pair in BASELINES)
    ],
)
def test_no_prediction_is_its_baseline_to_the_last_digit(name):
    found = reproduce([name])

    # What printed constants give to the last digit is an identity, whatever it is called.
    beside = [one for one in found.points if one.baseline is not None]
    assert beside
    assert [one for one in beside if one.reproduced == one.baseline] == []


class DrivenError(Exception):
    """A driver was entered."""


def _runs_a_driver(paper, name):
    """Whether the experiment enters one; it is ended there, as the rest may take minutes."""

    def watch(frame, event, _):
        if event != "call" or not frame.f_code.co_filename.startswith(DRIVERS):
            return
        # Importing a driver, and the classes in it, is not running it.
        caller = "" if frame.f_back is None else frame.f_back.f_code.co_name
        if MODULE not in (frame.f_code.co_name, caller):
            raise DrivenError

    before = sys.getprofile()
    run = find_experiment(paper, name)
    item = load_paper(paper).items[name]
    sys.setprofile(watch)
    try:
        run(item)
    except DrivenError:
        return True
    finally:
        sys.setprofile(before)
    return False


@pytest.mark.usefixtures("afresh")
def test_what_comes_out_without_any_driver_is_no_prediction():
    arithmetic = {pair for pair in experiment_names() if not _runs_a_driver(*pair)}

    assert {("utlb", "table6"), ("unet_mm", "table1"), ("utlb", "fast_path")} <= arithmetic
    for paper, name in arithmetic:
        assert not predicts(PAPERS[paper].items[name]), f"{paper}/{name}"


def test_every_value_that_a_platform_calls_fitted_is_named_by_the_numbers_it_was_fitted_to():
    named = {
        f"{platform}.{cost}"
        for paper, name in FITTED
        for constant in constants_of(PAPERS[paper].items[name])
        for platform, cost in platforms_of(constant)
    }

    assert fitted_on_platforms() <= named


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize(
    ("key", "name"),
    [
        pytest.param(*item, marks=pytest.mark.compiled if SIMULATED & {*item} else ())
        for item in FITTED
    ],
)
def test_a_fitted_constant_moves_what_it_was_fitted_to(key, name, tmp_path):
    before = numbers_of(key, name)
    constants = constants_of(PAPERS[key].items[name])
    moved = set()

    for place, (constant, fitted) in enumerate(constants.items()):
        with pytest.MonkeyPatch.context() as monkeypatch:
            shift(monkeypatch, tmp_path / str(place), constant)
            after = numbers_of(key, name)
        forget()
        changed = {quantity for quantity in fitted if before.get(quantity) != after.get(quantity)}
        assert changed, constant
        moved |= changed

    of_all = set().union(*constants.values()) & set(before)
    assert moved == of_all
