"""The examples run, and print what they should."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.compiled
@pytest.mark.requirement("MI-47", "MI-52")
@pytest.mark.parametrize("name", ["mini_miss_ratio", "mini_many_buffers"])
def test_an_example_prints_what_it_did(name, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", [name])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")

    assert capsys.readouterr().out == (EXAMPLES / f"{name}.out").read_text()
