"""A run that changes tiers at random entries leaves what one leaves that never does, to the byte.

Each run is a process of its own: with every entry compiled, and with a share of the entries, of the
calls from a distance, and of the callbacks interpreted, drawn anew for each.  What is compared is
all that is printed and every array of the machine.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nicscope.config.design import Scheme

pytestmark = pytest.mark.compiled

EXAMPLES = Path(__file__).parents[2] / "examples"
SWITCHING = ("switch:0.5:1", "switch:0.9:2")
DIGEST = """
import hashlib
import numpy as np

seen = {}

def digest(thing, at):
    if id(thing) in seen:
        return
    seen[id(thing)] = thing  # kept, so that nothing else gets its place
    if isinstance(thing, np.ndarray):
        if not at.endswith(".calls") and not thing.dtype.hasobject:  # not addresses
            told = hashlib.sha256()
            for name in thing.dtype.names or (None,):  # padding aside
                part = thing if name is None else thing[name]
                told.update(np.ascontiguousarray(part).tobytes())
            print(at, told.hexdigest()[:16])
    elif hasattr(thing, "_fields"):
        for name, field in zip(thing._fields, thing):
            digest(field, f"{at}.{name}")
    elif isinstance(thing, (list, tuple)):
        for place, each in enumerate(thing):
            digest(each, f"{at}[{place}]")
    elif type(thing).__module__.startswith("nicscope.") and "kernel" not in type(thing).__module__:
        for name, each in sorted(getattr(thing, "__dict__", {}).items()):
            digest(each, f"{at}.{name}")
"""
PROGRAM = """
import sys
from nicscope.kernel import entry

states = []
hand_over = entry.handed
def recorded(state):
    states.append(state)
    return hand_over(state)
entry.handed = recorded
space = {"__name__": "__main__", "__file__": sys.argv[1]}
exec(compile(sys.stdin.read(), sys.argv[1], "exec"), space)
for place, state in enumerate(states):
    digest(state, f"bound {place}")
"""
REPLAY = """
import sys
import numpy as np
from nicscope.config.design import design_names, load_design
from nicscope.drivers.replay import replay
from nicscope.drivers.replay.node import Node
from nicscope.drivers.replay.rnic import RnicNode
from trace_columns import Columns

nodes = []
def recording(begin):
    def recorded(node, *arguments):
        begin(node, *arguments)
        nodes.append(node)
    return recorded
for kind in (Node, RnicNode):
    kind.__init__ = recording(kind.__init__)
rng = np.random.default_rng(3)
batches = [
    Columns(
        rng.integers(0, 2, 150).astype(np.int32),
        rng.integers(0, 3, 150).astype(np.int32),
        rng.integers(0, 2, 150).astype(np.uint8),
        (rng.zipf(1.3, 150) % 600 << 12).astype(np.uint64),
        rng.integers(1, 20000, 150).astype(np.uint32),
    )
    for _ in range(12)
]
designs = [each for each in map(load_design, design_names()) if each.scheme.value == sys.argv[1]]
for result in replay(batches, designs):
    print(result.design.name, result.total)
for node in nodes:
    for room in ("_bound", "_part_desk"):  # whose unused end holds anything
        vars(node).pop(room, None)
digest(nodes, "nodes")
"""


def run(script, mode, name="", program=""):
    done = subprocess.run(
        [sys.executable, "-c", script, name],
        input=program,
        env={**os.environ, "NICSCOPE_COMPILE": mode, "PYTHONPATH": str(EXAMPLES.parent / "tests")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def same(script, name, program=""):
    whole = run(script, "wait", name, program)
    for mode in SWITCHING:
        assert run(script, mode, name, program) == whole
    return len(whole.splitlines())


@pytest.mark.parametrize(
    "name",
    ["unet_pingpong", "vmmc_store_fetch", "mini_many_buffers", "trapeze_policies"],
)
def test_programs_of_every_interface(name):
    program = (EXAMPLES / f"{name}.py").read_text()

    assert same(DIGEST + PROGRAM, name, program) > 30


def test_programs_on_virtual_interfaces():
    page = (EXAMPLES.parent / "docs" / "via.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)

    assert same(DIGEST + PROGRAM, "via", program) > 30


@pytest.mark.parametrize("scheme", [each.value for each in Scheme])
def test_replays_of_every_scheme(scheme):
    assert same(DIGEST + REPLAY, scheme) > 10
