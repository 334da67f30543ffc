"""A step has no machine code of its own: it is part of the entries that call it."""

import pytest

from tiny_package import make_tiny, run_tiny

pytestmark = pytest.mark.compiled

PARTS = """
from tiny.kernel.decorators import kernel, routine, step

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
from tiny.kernel.entry import on_compilation
compiled = []
on_compilation(compiled.append)
from tiny.parts import {name}, sum_to, twice
print({name}(10), *sorted(compiled))
if compiled:
    from tiny.kernel.compiler.compiling import _step_of
    for part in (sum_to, twice):
        for each in _step_of(part).overloads.values():
            assert each.library.get_pointer_to_function(each.fndesc.mangled_name) == 0
"""


def test_only_entries_have_machine_code_and_are_kept(tmp_path):
    (make_tiny(tmp_path) / "parts.py").write_text(PARTS)

    def run(name):
        return run_tiny(tmp_path, SCRIPT.format(name=name), tmp_path / "cache")

    assert run("first") == ["130", "first"]
    assert run("second") == ["90", "second"]
    assert run("second") == ["90"]
    assert len([*(tmp_path / "cache").rglob("*.o")]) == 2
