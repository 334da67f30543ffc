"""Nodes of verbs are small in these tests: to make them takes longer than most of the tests run."""

import inspect

import msgspec
import pytest

from nicscope.drivers.simulate.ports.build import HostSize
from nicscope.interfaces.verbs_device import fabric

WHOLE = {"HOST": fabric.HOST, "SIZE": fabric.SIZE, "pairs": fabric.PAIRS}
SMALL = {
    "HOST": HostSize(frames=1 << 12, pages_per_space=1 << 12, swap_blocks=1 << 10),
    "SIZE": msgspec.structs.replace(
        fabric.SIZE, connections=1 << 10, regions=1 << 10, queues=65, entries=1 << 10
    ),
    "pairs": 64,
}


def give(patch, sizes):
    for name in ("HOST", "SIZE"):
        patch.setattr(fabric, name, sizes[name])
    defaults = inspect.unwrap(fabric.Fabric.__init__).__kwdefaults__
    patch.setitem(defaults, "pairs", sizes["pairs"])


@pytest.fixture(autouse=True, scope="module")
def small_nodes():
    with pytest.MonkeyPatch.context() as patch:
        give(patch, SMALL)
        yield


@pytest.fixture
def whole_nodes(monkeypatch):
    """Have them be as large as they are elsewhere."""
    give(monkeypatch, WHOLE)
