"""The tests of this folder call ``main`` hundreds of times: the command line is built once."""

from __future__ import annotations

import pytest

from command_line import build_once


@pytest.fixture(autouse=True, scope="module")
def command_line():
    with pytest.MonkeyPatch.context() as patch:
        build_once(patch)
        yield
