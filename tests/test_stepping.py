"""A step has no machine code of its own, in the process that compiled it or in a later one."""

from __future__ import annotations

import pytest
from numba.core import config

from tiny_package import make_tiny, run_tiny

pytestmark = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")

PARTS = """
from tiny.jit import kernel, routine, step

@step
def twice(x):
    return 2 * x

@routine
def sum_to(x):
    total = 0
    for i in range(x + 1):
        total += twice(i)
    return total

@kernel
def first(x):
    return sum_to(x) + twice(x)

@kernel
def second(x):
    return sum_to(x) - twice(x)
"""
SCRIPT = """
from tiny import jit
compiled = []
jit.on_compilation(compiled.append)
from tiny.parts import {name}, sum_to, twice
print({name}(10), *sorted(compiled))
for part in (sum_to, twice):
    for compiled in part.overloads.values():
        assert compiled.library.get_pointer_to_function(compiled.fndesc.mangled_name) == 0
        assert isinstance(compiled.library.serialize_using_object_code()[1], bytes)
"""


def test_kernels_of_a_second_process_are_made_with_the_steps_of_the_first(tmp_path):
    (make_tiny(tmp_path) / "parts.py").write_text(PARTS)

    def run(name):
        return run_tiny(tmp_path, SCRIPT.format(name=name), tmp_path / "cache")

    assert run("first") == ["130", "first", "sum_to", "twice"]
    assert run("second") == ["90", "second"]
    assert run("second") == ["90"]
