"""A killed reproduction goes on where it was, and what comes out is what an unbroken one finds."""

import contextlib
import json
import sys
import zlib

import pytest
from study_samples import write_sample

from nicscope.cli import app
from nicscope.errors import StudyError
from nicscope.studies.reproduce import harness, keeping
from nicscope.studies.reproduce.harness import find_experiment, load_papers, reproduce, study
from nicscope.studies.reproduce.keeping import kept_beside
from nicscope.studies.reproduce.traced import measuring
from nicscope.studies.reproduce.verdict import Outcome, Reproduction
from pressing import interrupted
from refusals import refused, refused_command

LIGHT = ("utlb/fast_path", "utlb/table1", "utlb/table2", "utlb/table6", "unet_mm/table1")
# Without a replay: one pass each.
STUDIES = ("utlb/table8", "utlb/figure7", "utlb/section7_independent")


class Runs:
    """Finds experiments, notes which were run, and is killed after so many."""

    def __init__(self, most=1000):
        self.names = []
        self._most = most

    def __call__(self, paper, item):
        if len(self.names) == self._most:
            raise KeyboardInterrupt
        self.names.append(f"{paper}/{item}")
        return find_experiment(paper, item)


@contextlib.contextmanager
def killed(out):
    """What is kept beside ``out``, of a run that is killed when the block ends."""
    with contextlib.suppress(KeyboardInterrupt), kept_beside(out) as kept:
        yield kept
        raise KeyboardInterrupt


def in_catalogs_order(names):
    return ["/".join(pair) for pair in harness.choose(load_papers(), names)]


@pytest.mark.parametrize("most", [1, 4])
def test_what_a_killed_run_found_is_not_run_again_and_comes_out_the_same(tmp_path, most):
    out, first, second = tmp_path / "report", Runs(most), Runs()
    with pytest.raises(KeyboardInterrupt), kept_beside(out) as kept:
        reproduce(LIGHT, find=first, kept=kept)
    assert [path.name for path in tmp_path.iterdir()] == ["report.journal"]

    with kept_beside(out) as kept:
        assert kept.earlier == most
        resumed = reproduce(LIGHT, find=second, kept=kept)

    assert first.names + second.names == in_catalogs_order(LIGHT)
    assert resumed.to_json() == reproduce(LIGHT).to_json()
    assert list(tmp_path.iterdir()) == []


def test_an_item_serves_whatever_else_is_asked_for_and_two_runs_do_not_meet(tmp_path):
    with pytest.raises(KeyboardInterrupt), kept_beside(tmp_path / "report") as kept:
        reproduce(["utlb/table1", "utlb/table6"], find=Runs(1), kept=kept)

    again = Runs()
    with kept_beside(tmp_path / "report") as kept:
        reproduce(["utlb/fast_path", "utlb/table1"], find=again, kept=kept)
        with refused(StudyError, "another reproduction"), kept_beside(tmp_path / "report"):
            pass

    assert again.names == ["utlb/fast_path"]


def test_an_outcome_comes_back_to_the_last_digit():
    outcome = Outcome()
    outcome.point("far", "us", 1 / 3, pages=8)
    outcome.point("sum", "us", harness.load_papers()["utlb"].items["table6"].points[0].tolerance)
    outcome.shape("falls", True, "5 > 4, ≥")

    back = Outcome.of_json(json.loads(json.dumps(outcome.to_json())))

    assert (back.values, back.shapes) == (outcome.values, outcome.shapes)


@pytest.mark.parametrize("other", ["package_stamp", "_catalog_stamp", "version"])
def test_what_other_code_or_another_catalog_found_is_forgotten(tmp_path, monkeypatch, other):
    out = tmp_path / "report"
    with pytest.raises(KeyboardInterrupt), kept_beside(out) as kept:
        reproduce(LIGHT, find=Runs(2), kept=kept)
    room = "nicscope.kernel.fingerprint" if other == "package_stamp" else keeping.__name__
    monkeypatch.setattr(f"{room}.{other}", lambda *_: "other")

    with killed(out) as kept:
        assert kept.earlier == 0
        reproduce(["utlb/table1"], kept=kept)
    with kept_beside(out) as kept:
        assert kept.earlier == 1


def test_a_torn_line_is_dropped_and_its_item_run_again(tmp_path):
    out, journal = tmp_path / "report", tmp_path / "report.journal"
    with pytest.raises(KeyboardInterrupt), kept_beside(out) as kept:
        reproduce(LIGHT, find=Runs(2), kept=kept)
    whole = journal.read_bytes()
    last = whole[:-1].rfind(b"\n") + 1
    for cut in (last + 1, last + 9, (last + len(whole)) // 2, len(whole) - 1):
        journal.write_bytes(whole[:cut])

        with killed(out) as kept:
            assert kept.earlier == 1

        assert journal.read_bytes() == whole[:last]


def sealed(text):
    return b"%08x%s\n" % (zlib.crc32(text), text)


@pytest.mark.parametrize("content", [b"my notes\n", sealed(b'{"sweep": 1}'), sealed(b"[]")])
def test_a_file_that_is_no_journal_is_refused_and_stays(tmp_path, content, capsys):
    (tmp_path / "report.journal").write_bytes(content)

    words = ["reproduce", "utlb/table6", "--out", tmp_path / "report"]
    refused_command(capsys, words, "report.journal", "move it away")

    assert (tmp_path / "report.journal").read_bytes() == content
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize("name", [".", "..", "new/deep/report"])
def test_any_folder_will_do_and_nothing_is_left_beside_it(tmp_path, monkeypatch, name):
    (home := tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(home)

    assert app.main(["reproduce", "utlb/table6", "--out", name]) == 0

    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"results.json", "results.md", "index.html"}


@pytest.fixture
def traces(tmp_path):
    (folder := tmp_path / "traces").mkdir()
    return [write_sample(folder / f"{name}.parquet", seed) for seed, name in enumerate("abc")]


def studied(traces, kept=None, names=STUDIES):
    found = Reproduction([], [], [], [], [], {}, [])
    study(found, names, traces, kept=kept)
    return found.to_json()


@pytest.mark.compiled
@pytest.mark.parametrize("names", [STUDIES, STUDIES[:2]])
def test_a_trace_that_was_measured_for_the_studies_is_not_measured_again(
    tmp_path, traces, monkeypatch, names
):
    real, measured = measuring.measure, []

    def measure(name, *rest):
        if len(measured) == 2:
            raise KeyboardInterrupt
        measured.append(name)
        return real(name, *rest)

    monkeypatch.setattr(measuring, "measure", measure)
    with pytest.raises(KeyboardInterrupt), kept_beside(tmp_path / "report") as kept:
        studied(traces, kept, names)
    assert measured == ["a", "b"]
    again = []
    monkeypatch.setattr(measuring, "measure", lambda *each: again.append(each[0]) or real(*each))

    with kept_beside(tmp_path / "report") as kept:
        resumed = studied(traces, kept, names)

    # All together at the same time needs each by itself; else the third alone is left.
    assert len(again) == (4 if names == STUDIES else 1)
    assert resumed == studied(traces, None, names)


@pytest.mark.compiled
def test_a_trace_that_changed_is_measured_again(tmp_path, traces, monkeypatch):
    real, measured = measuring.measure, []
    monkeypatch.setattr(measuring, "measure", lambda *each: measured.append(each[0]) or real(*each))
    names = STUDIES[:1]
    with killed(tmp_path / "report") as kept:
        studied(traces, kept, names)
    write_sample(traces[1], seed=9)
    measured.clear()

    with kept_beside(tmp_path / "report") as kept:
        resumed = studied(traces, kept, names)

    assert measured == ["b"]
    assert resumed == studied(traces, None, names)


def test_ctrl_c_says_what_is_kept_and_the_same_command_goes_on(tmp_path, capsys, monkeypatch):
    out, journal = tmp_path / "report", tmp_path / "report.journal"
    items = ["utlb/table1", "utlb/simulated_table1", "utlb/simulated_table2"]
    command = [sys.executable, "-m", "nicscope", "reproduce", *items, "--out", str(out)]

    done = interrupted(
        command, lambda: journal.exists() and journal.read_bytes().count(b"\n") > 1, 0.0
    )

    assert done == (
        130,
        "",
        f"nicscope: interrupted; what is done is kept in {journal}: the same command continues\n",
    )
    assert list(tmp_path.iterdir()) == [journal]
    runs, real = Runs(), harness.reproduce
    monkeypatch.setattr(harness, "reproduce", lambda *a, **more: real(*a, **more, find=runs))
    assert app.main(["reproduce", "utlb/table1", "--out", str(out)]) == 0
    assert runs.names == []
    assert "continuing: 1 was found before" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [out]
