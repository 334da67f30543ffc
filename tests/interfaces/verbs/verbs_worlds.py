"""Worlds with a device of either kind, and their end."""

import gc
from contextlib import contextmanager

from nicscope.interfaces.verbs.base import World, use
from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.device import Device
from oracle.verbs_device import TwinDevice


def begun(kind):
    """A world with a device of that kind, which programs get from now on."""
    world = World(TwinDevice(calls) if kind == "twin" else Device("vmmc-interrupt"))
    use(world)
    return world


@contextmanager
def collected():
    """What is made meanwhile is collected at the end, with whatever hangs together in circles.

    All that was there before is not looked at, which would take a hundred times as long.
    """
    gc.freeze()
    try:
        yield
    finally:
        use(None)
        gc.collect()
        gc.unfreeze()
