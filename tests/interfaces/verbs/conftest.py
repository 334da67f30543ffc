"""Worlds that programs of verbs run on: the simulated device, and the slow one of the oracle."""

from __future__ import annotations

import gc

import pytest

from nicscope.interfaces.verbs.world import World, use
from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.device import Device
from oracle.verbs_device import TwinDevice


def begun(kind):
    """A world with a device of that kind, which programs get from now on."""
    world = World(TwinDevice(calls) if kind == "twin" else Device())
    use(world)
    return world


@pytest.fixture(params=["twin", "device"])
def world(request):
    yield begun(request.param)
    use(None)
    gc.collect()


@pytest.fixture
def twin_world():
    yield begun("twin")
    use(None)
    gc.collect()


@pytest.fixture
def device_world():
    yield begun("device")
    use(None)
    gc.collect()
