"""Commands run in this process, for every test of what they write."""

import functools

import pytest
from quickly import Commands


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        yield Commands(tmp_path_factory.mktemp("inputs"), patch)


@pytest.fixture
def run(quick, capfd):
    """Call it with a case and an output: status, output and errors of the command."""
    return functools.partial(quick.run, capfd)
