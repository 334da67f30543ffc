"""Calibration: the catalog holds what it yields, and it says what it did."""

import json
import sys

import pytest
import typer
from typer.testing import CliRunner

from nicscope.cli.calibrate import calibrate_platform
from nicscope.config.costs import Evidence
from nicscope.config.platform import load_platform
from nicscope.errors import StudyError
from nicscope.reports.calibration import ShownCalibration
from nicscope.studies.calibrate import fit as fitting
from nicscope.studies.calibrate.anchors import anchors, fit_firmware_log, lost_to_gaps
from nicscope.studies.calibrate.fit import (
    CONSTANTS,
    Calibration,
    Residual,
    Value,
    all_together,
    build_costs,
    calibrate,
    committed,
    residuals,
    rounded,
    together,
)
from nicscope.studies.delivery_measures import PLATFORMS, pair_costs, platform_costs
from refusals import refused


def test_the_catalog_holds_what_follows_from_its_constants_within_their_bounds():
    assert build_costs(committed(), platform_costs()) == platform_costs()
    assert rounded(committed()) == committed()
    for constant, value in zip(CONSTANTS, committed(), strict=True):
        assert constant.low <= value <= constant.high, constant.name


@pytest.mark.requirement("TR-78")
@pytest.mark.parametrize("name", PLATFORMS)
def test_every_constant_that_is_fitted_says_so(name):
    costs = load_platform(name).costs
    fitted = {cost for cost in costs if costs[cost].origin.evidence is Evidence.FITTED}
    free = {cost for constant in CONSTANTS if name in constant.platforms for cost in constant.costs}
    assert fitted == free | {"firmware_log"}


@pytest.mark.compiled
@pytest.mark.long
def test_no_single_step_betters_the_catalog():
    assert fitting.polish(committed(), "4k") == committed()
    assert fitting.polish(together(), "all") == together()


@pytest.mark.compiled
@pytest.mark.requirement("TR-72", "TR-78")
def test_the_half_that_was_not_fitted_is_predicted():
    found = residuals(platform_costs(), "4k")
    predicted = [abs(each.error) for each in found if not each.fitted]

    assert len(predicted) == 17  # sixteen of 8 KB and the headline's 64 KB
    assert sum(predicted) / 17 <= 0.05
    assert max(predicted) <= 0.10


@pytest.mark.compiled
def test_fitted_together_all_of_table_1_is_met_within_two_and_a_half_per_cent():
    found = residuals(all_together(), "all")

    table = [abs(each.error) for each in found if each.name[:3] in ("sto", "cut")]
    assert len(table) == 32
    assert sum(table) / 32 <= 0.025


@pytest.mark.compiled
def test_logging_costs_what_loses_15_per_cent_of_the_bus():
    ends = pair_costs(platform_costs(), "p6-natoma")

    assert fit_firmware_log(ends, 0.15) == ends[0]["firmware_log"]
    assert lost_to_gaps(ends) == pytest.approx(0.15, abs=0.005)


@pytest.mark.compiled
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("half", ["4k", "all"])
def test_the_catalog_holds_what_the_calibration_yields(half):
    pytest.importorskip("scipy")
    held = committed() if half == "4k" else together()

    assert fitting.fit(half) == held


@pytest.mark.compiled
@pytest.mark.long
def test_a_calibration_is_the_same_again(monkeypatch):
    pytest.importorskip("scipy")
    monkeypatch.setattr(fitting, "ROUNDS", 3)
    monkeypatch.setattr(fitting, "STRIDES", (64,))
    first, second = (fitting.fit("4k", starts=1, seed=4) for _ in range(2))

    assert first == second
    assert rounded(first) == first


def test_without_scipy_and_of_an_unknown_half_or_platform_it_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with refused(StudyError, "scipy", "pip install 'nicscope[calibrate]'"):
        fitting.fit("4k")
    with refused(StudyError, "'8k'"):
        calibrate("8k")
    done = ran("--platform", "p6")
    assert isinstance(done.exception, StudyError)
    assert "'p6'" in str(done.exception)


def test_an_anchor_is_fitted_by_one_half_or_by_both():
    by_name = {(each.name, each.unit, each.pair): each for each in anchors()}
    four = by_name["store_4k", "us", "alcor"]
    eight = by_name["cut_8k", "MB/s", "alcor"]
    beyond = by_name["adaptive_64k", "MB/s", "pentium2-440lx"]

    assert [four.fitted_by(half) for half in ("4k", "all")] == [True, True]
    assert [eight.fitted_by(half) for half in ("4k", "all")] == [False, True]
    assert [beyond.fitted_by(half) for half in ("4k", "all")] == [False, False]


SMALL = Calibration(
    half="4k",
    seed=1,
    misfit=2.0,
    values=[Value("link_start", ["link_start"], ["alcor"], 1_960_000, None, 0, 6_000_000)],
    residuals=[
        Residual("store_4k", "us", "alcor", 158.0, 150.0, -0.05, fitted=True),
        Residual("store_8k", "us", "alcor", 282.0, 290.0, 0.03, fitted=False),
    ],
)


def test_means_tell_fitted_from_predicted(capsys):
    ShownCalibration(SMALL).show()
    text = capsys.readouterr().out

    assert "1.96 us" in text
    for words in ("1 numbers fitted: mean error 5.00 %", "1 numbers predicted: mean error 3.00 %"):
        assert words in text
    assert all(len(line) <= 100 for line in text.splitlines())


def ran(*words):
    app = typer.Typer()
    app.command()(calibrate_platform)
    return CliRunner().invoke(app, [*words])


@pytest.mark.compiled
def test_the_command_reports_on_the_platform_that_is_asked_for(monkeypatch):
    monkeypatch.setattr(fitting, "fit", lambda *_, **__: committed())
    printed = json.loads(ran("--platform", "p6-natoma", "--json").stdout)

    assert {each["pair"] for each in printed["residuals"]} == {"p6-natoma"}
    assert all("p6-natoma" in each["platforms"] for each in printed["values"])
    assert all(each["fitted_ps"] == each["catalog_ps"] for each in printed["values"])
