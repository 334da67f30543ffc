"""What a killed sweep leaves, and what is made of it."""

from __future__ import annotations

import pytest

from nicscope.errors import OutputError, StudyError
from nicscope.studies.sweep.identity import TraceIdentity, identity_of
from nicscope.studies.sweep.journal import Record, open_journal
from nicscope.studies.sweep.question import ask

RECORDS = [Record(0, number, [number, None, 7 * number]) for number in range(5)]
TRACE = TraceIdentity(name="t", requests=40, sha256="00")


def identity(grid=("entries=64,128",), design="utlb", traces=(TRACE,), kinds=True, platform=None):
    points = ask(design, platform, grid, many=False)
    return identity_of(points, traces, points.platforms(), kinds)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out.parquet.journal"


@pytest.fixture
def written(path):
    with open_journal(path, identity()) as journal:
        journal.append(RECORDS[:2])
        journal.append(RECORDS[2:])
    return path


def test_records_come_back_in_order(written):
    with open_journal(written, identity()) as journal:
        assert journal.records == RECORDS
        assert journal.kept == 5


def test_a_line_torn_anywhere_is_dropped_and_the_next_follows_the_last_whole_one(written):
    content = written.read_bytes()
    last = content.rindex(b"\n", 0, len(content) - 1) + 1
    for length in range(last, len(content)):
        written.write_bytes(content[:length])
        with open_journal(written, identity()) as journal:
            assert journal.records == RECORDS[:4]
            journal.append(RECORDS[4:])
        assert written.read_bytes() == content


def test_a_last_line_of_which_a_byte_is_wrong_is_dropped(written):
    content = written.read_bytes()
    written.write_bytes(content[:-3] + b"9" + content[-2:])

    with open_journal(written, identity()) as journal:
        assert journal.records == RECORDS[:4]


def test_a_torn_first_line_is_a_journal_that_never_began(written):
    content = written.read_bytes()
    written.write_bytes(content[:50])

    with open_journal(written, identity()) as journal:
        assert journal.records == []
        journal.append(RECORDS)
    with open_journal(written, identity()) as journal:
        assert journal.records == RECORDS


def test_a_journal_without_records_does_not_stay(path):
    with open_journal(path, identity()):
        assert path.exists()

    assert not path.exists()


def test_a_file_that_is_no_journal_is_refused_and_kept(path):
    path.write_text("dear diary\n")

    with (
        pytest.raises(StudyError, match="no journal of a sweep"),
        open_journal(path, identity()),
    ):
        pass

    assert path.read_text() == "dear diary\n"


OTHERS = {
    "its entries is 64,128, here 64,256": {"grid": ["entries=64,256"]},
    "its grid does not vary ways, this one does": {"grid": ["entries=64,128", "ways=1"]},
    "its grid varies entries, this one does not": {"grid": ["ways=1"]},
    "its design's name is utlb, here utlb-shared": {"design": "utlb-shared"},
    "its --no-kinds is false, here true": {"kinds": False},
    "its platform is utlb-prototype, here linux-host": {"platform": "linux-host"},
    "its traces are t, here u": {"traces": [TraceIdentity(name="u", requests=1, sha256="")]},
    "its trace t had other content (40 requests)": {
        "traces": [TraceIdentity(name="t", requests=40, sha256="11")]
    },
}


@pytest.mark.parametrize("difference", OTHERS)
def test_another_sweeps_journal_is_refused_with_the_difference(written, difference):
    before = written.read_bytes()

    with (
        pytest.raises(StudyError) as refused,
        open_journal(written, identity(**OTHERS[difference])),
    ):
        pass

    assert difference in str(refused.value)
    assert written.read_bytes() == before


def test_the_order_of_the_keys_and_the_program_matter_too(monkeypatch):
    one, other = ["entries=64", "ways=1"], ["ways=1", "entries=64"]
    assert "order entries, ways" in identity(other).difference(identity(one))

    here = identity()
    monkeypatch.setattr("nicscope.jit.package_stamp", lambda: "feedfeedfeedfeed")
    assert "source feedfeedfeed)" in here.difference(identity())


def test_a_platform_with_other_costs_is_told(tmp_path):
    file = tmp_path / "mine.toml"
    text = '[costs]\nni_check = {{ value = {}, unit = "us", evidence = "assumed", source = "x" }}\n'
    file.write_text(text.format(1))
    one = identity(platform=str(file))
    file.write_text(text.format(2))

    assert "platform mine had other costs" in identity(platform=str(file)).difference(one)


def test_two_at_once_are_refused(written):
    with (
        open_journal(written, identity()),
        pytest.raises(StudyError, match="another sweep is writing it"),
        open_journal(written, identity()),
    ):
        pass


def test_a_journal_that_cannot_be_made_is_told(tmp_path):
    with (
        pytest.raises(OutputError, match="cannot be written: No such file"),
        open_journal(tmp_path / "none" / "o.journal", identity()),
    ):
        pass
