"""Trapeze's example runs and prints what is written beside it."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.requirement("TR-13", "TR-14")
def test_a_kernels_users_share_frames_and_every_byte_is_right(capsys):
    runpy.run_path(str(EXAMPLES / "trapeze_kernel.py"), run_name="__main__")

    assert capsys.readouterr().out == (EXAMPLES / "trapeze_kernel.out").read_text()
