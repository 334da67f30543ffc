"""The exception tree: one line for the user, a suggestion where one can be made."""

from __future__ import annotations

import inspect

import pytest

from nicscope import errors
from nicscope.cli import app
from nicscope.errors import NicscopeError, OutputError, did_you_mean

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


def test_without_a_near_word_all_are_listed_in_order():
    assert did_you_mean("xyz", ["utlb", "handle"]) == "; choose from handle, utlb"


def test_without_any_known_word_nothing_is_suggested():
    assert did_you_mean("utlb", []) == ""


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
