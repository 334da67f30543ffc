"""Worlds that programs of verbs run on: the simulated device, and the slow one of the oracle."""

from textwrap import dedent

import pytest
from verbs_worlds import begun, collected


@pytest.fixture(params=["twin", "device"])
def world(request):
    with collected():
        yield begun(request.param)


@pytest.fixture
def twin_world():
    with collected():
        yield begun("twin")


@pytest.fixture
def device_world():
    with collected():
        yield begun("device")


@pytest.fixture
def program(tmp_path):
    """Whoever calls it with a name and a text has that program."""

    def write(name, text):
        path = tmp_path / f"{name}.py"
        path.write_text(dedent(text))
        return str(path)

    return write
