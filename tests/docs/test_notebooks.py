"""The notebooks of the documentation run in Jupyter, and print what they are kept with."""

import sys
from pathlib import Path

import nbformat
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))

from run_notebooks import NOTEBOOKS, printed, ran


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_is_kept_with(path):
    kept = printed(nbformat.read(path, as_version=4))

    assert printed(ran(path)) == kept
    assert all(outputs for source, outputs in kept if not source.endswith('"'))
