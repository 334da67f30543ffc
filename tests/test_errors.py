"""The exception tree: one line for the user, a suggestion where one can be made."""

import inspect
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope import errors
from nicscope.cli import app
from nicscope.errors import LONGEST, NicscopeError, OutputError, did_you_mean, one_line, printable

TREE = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, Exception) and kind is not NicscopeError
]


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_every_error_is_a_nicscope_error_and_stands_in_the_drawn_tree(kind):
    assert issubclass(kind, NicscopeError)
    assert f"  {kind.__name__} " in errors.__doc__


def test_the_nearest_known_word_is_suggested():
    assert did_you_mean("utbl", ["static", "utlb", "handle"]) == "; did you mean 'utlb'?"


def test_a_word_in_capitals_or_the_beginning_of_others_is_near_enough():
    assert did_you_mean("UTLB", ["static", "utlb"]) == "; did you mean 'utlb'?"
    assert did_you_mean("p6", ["p6-natoma", "alcor"]) == "; did you mean 'p6-natoma'?"
    known = ["p6-pci", "p6-natoma", "alcor"]
    assert did_you_mean("p6", known) == "; did you mean 'p6-natoma' or 'p6-pci'?"


def test_without_a_near_word_all_are_listed_in_order():
    assert did_you_mean("xyz", ["utlb", "handle"]) == "; choose from handle, utlb"


def test_without_any_known_word_nothing_is_suggested():
    assert did_you_mean("utlb", []) == ""


@pytest.mark.parametrize("kind", [NicscopeError, *TREE], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    "odd",
    [
        "two\nlines\r\n",
        "\x1b[2J\x1b]0;title\x07",
        "a\0b\x7f\x9b",
        "\N{RIGHT-TO-LEFT OVERRIDE}gpj.\N{LINE SEPARATOR}",
        "\udcff\ud800",
        "x" * 200_000,
        "\x1b" * 200_000,
        "\n" * (LONGEST - 1),
    ],
    ids=ascii,
)
def test_whatever_an_error_quotes_it_is_one_printable_line_of_bounded_length(kind, odd):
    line = str(kind(f"{odd}: here: do this"))

    assert line.isprintable()
    assert len(line) <= LONGEST
    assert line.endswith("do this")
    line.encode("ascii", "backslashreplace")


@given(st.text(st.characters(exclude_categories=())))
def test_a_printable_text_of_bounded_length_stays_as_it_is_and_another_is_told_from_it(text):
    shown = one_line(text)

    assert shown.isprintable()
    assert (shown == text) == (text.isprintable() and len(text) <= LONGEST)
    assert printable(printable(text)) == printable(text)


def test_bytes_of_names_that_are_no_utf_8_are_shown_as_bytes():
    assert printable(os.fsdecode(b"a\xff\xc3\xa9\n")) == "a\\xff\u00e9\\n"


def run_into(monkeypatch, error):
    def command(**_):
        raise error

    monkeypatch.setattr(app, "app", command)
    return app.main([])


def test_a_users_mistake_is_one_line_on_stderr_and_exit_status_2(monkeypatch, capsys):
    assert run_into(monkeypatch, OutputError("here: cannot be written")) == 2

    assert capsys.readouterr() == ("", "nicscope: here: cannot be written\n")


def test_an_interrupt_is_exit_status_130(monkeypatch, capsys):
    assert run_into(monkeypatch, KeyboardInterrupt()) == 130

    assert "interrupted" in capsys.readouterr().err


def test_a_mistake_of_ours_keeps_its_traceback(monkeypatch):
    with pytest.raises(ZeroDivisionError):
        run_into(monkeypatch, ZeroDivisionError())
