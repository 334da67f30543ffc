"""How a mutant gets in the place of what is loaded, and which tests it is tried by."""

import importlib
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("swapped", reason="tests/mutation is not on the path")

from footprints import Footprint
from swapped import Broken, swap, within_functions
from trial import chosen_for

CODE = textwrap.dedent(
    """\
    LIMIT = 3


    def doubled(x):
        if x > LIMIT:
            return (
                x
                + x
            )
        return 0


    class Box:
        def __init__(self, x):
            self.x = x

        @property
        def room(self):
            return self.x - 1
    """
)


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a_broken_module.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path / "src")
    yield importlib.import_module("a_broken_module")
    sys.modules.pop("a_broken_module")


def mutant(before, after):
    assert CODE.count(before) == 1
    line = CODE[: CODE.index(before)].count("\n") + 1
    return SimpleNamespace(
        path=Path("src/a_broken_module.py"), line=line, code=CODE.replace(before, after)
    )


def test_a_function_that_others_hold_runs_the_changed_body(loaded):
    held = loaded.doubled

    assert swap(mutant("x > LIMIT", "x < LIMIT"), CODE)
    assert (held(2), held(5)) == (4, 0)


def test_methods_and_properties_run_the_changed_body(loaded):
    box = loaded.Box(4)

    assert swap(mutant("self.x - 1", "self.x + 1"), CODE)
    assert box.room == 5


def test_what_is_worked_out_on_import_takes_an_interpreter_of_its_own(loaded):
    change = mutant("LIMIT = 3", "LIMIT = 4")

    assert not within_functions(CODE, change.code)
    assert not swap(change, CODE)
    assert loaded.LIMIT == 3


def test_a_module_is_loaded_with_the_changed_code_and_the_file_stays(loaded, monkeypatch):
    sys.modules.pop("a_broken_module")
    broken = Broken("a_broken_module", mutant("LIMIT = 3", "LIMIT = 4").code)
    monkeypatch.setattr(sys, "meta_path", [broken, *sys.meta_path])

    assert importlib.import_module("a_broken_module").LIMIT == 4
    assert Path(loaded.__file__).read_text() == CODE


def test_tests_that_come_by_the_changed_statement_are_run_the_shortest_first():
    def footprint(test, seconds, *lines):
        return Footprint(test, seconds, {"src/a_broken_module.py": frozenset(lines)})

    slow = footprint("slow", 2.0, 5, 6, 7, 8)
    quick = footprint("quick", 1.0, 5, 6, 7, 8)
    elsewhere = footprint("elsewhere", 0.1, 5, 10)
    change = mutant("+ x", "- x")  # the third line of its statement

    assert chosen_for(change, CODE, [slow, elsewhere, quick]) == [quick, slow]
    head = mutant("x > LIMIT", "x < LIMIT")
    assert chosen_for(head, CODE, [slow, elsewhere, quick]) == [elsewhere, quick, slow]
    anywhere = mutant("LIMIT = 3", "LIMIT = 4")
    assert chosen_for(anywhere, CODE, [slow, elsewhere, quick]) == [elsewhere, quick, slow]
