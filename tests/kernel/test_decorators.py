"""Compiled kernels are never older than what they are made of, and one source serves both worlds.

The subject is a package of two files made for the test around copies of ``nicscope.kernel`` and of
what that needs, each run in a process of its own.
"""

import numpy as np
import pytest

from nicscope.kernel.decorators import kernel, step
from nicscope.kernel.records import longer, records
from tiny_package import make_tiny, run_tiny

PART = """
from tiny.kernel.decorators import kernel

STEP = {step}

@kernel
def callee(x):
    return {callee}
"""
WHOLE = """
from tiny.kernel.decorators import kernel
from tiny.part import STEP, callee

@kernel
def caller(x):
    return callee(x) + STEP
"""
SCRIPT = """
import sys
from tiny.kernel.entry import on_compilation
compiled = []
on_compilation(compiled.append)
from tiny.whole import caller
print(caller(1), *compiled)
"""


class Tiny:
    """The package on disk, and what a fresh process makes of it."""

    def __init__(self, root):
        self.root = root
        self.cache = root / "cache"
        self.package = make_tiny(root)
        (self.package / "whole.py").write_text(WHOLE)
        self.write()

    def write(self, step=10, callee="x * 2"):
        (self.package / "part.py").write_text(PART.format(step=step, callee=callee))

    def run(self, **environment):
        """Result of ``caller(1)`` and the kernels that were compiled for it."""
        result, *compiled = run_tiny(self.root, SCRIPT, self.cache, **environment)
        return int(result), sorted(compiled)


@pytest.fixture
def tiny(tmp_path):
    return Tiny(tmp_path)


@pytest.mark.compiled
def test_the_second_process_compiles_nothing(tiny):
    assert tiny.run() == (12, ["caller"])
    assert tiny.run() == (12, [])


@pytest.mark.compiled
def test_an_edited_callee_is_compiled_into_its_unedited_caller(tiny):
    tiny.run()
    tiny.write(callee="x * 3")

    assert tiny.run() == (13, ["caller"])


@pytest.mark.compiled
def test_an_edited_constant_is_compiled_into_the_kernels_that_import_it(tiny):
    tiny.run()
    tiny.write(step=20)

    assert tiny.run()[0] == 22


@pytest.mark.compiled
def test_bounds_checks_have_a_cache_of_their_own(tiny):
    tiny.run()

    assert tiny.run(NUMBA_BOUNDSCHECK="1") == (12, ["caller"])
    assert tiny.run(NUMBA_BOUNDSCHECK="1") == (12, [])
    assert tiny.run() == (12, [])


@pytest.mark.compiled
def test_a_copy_of_the_package_elsewhere_is_not_confused_with_it(tiny, tmp_path):
    tiny.run()
    other = Tiny(tmp_path / "other")
    other.cache = tiny.cache
    other.write(callee="x * 5")

    assert other.run()[0] == 15
    assert tiny.run() == (12, [])


@pytest.mark.compiled
def test_kernels_run_where_no_cache_can_be_written(tiny):
    tiny.cache.write_text("a file where the folder would be")

    assert tiny.run()[0] == 12
    assert tiny.run()[0] == 12


def test_without_the_compiler_a_kernel_is_the_plain_function(tiny):
    assert tiny.run(NUMBA_DISABLE_JIT="1") == (12, [])
    assert not tiny.cache.exists()


def test_where_nothing_is_to_be_compiled_a_kernel_is_the_plain_function(tiny):
    assert tiny.run(NICSCOPE_COMPILE="never") == (12, [])
    assert not tiny.cache.exists()


@pytest.mark.compiled
def test_an_edit_of_what_no_kernel_calls_compiles_nothing(tiny):
    tiny.run()
    (tiny.package / "other.py").write_text("SENTENCE = 'another'\n")
    path = tiny.package / "part.py"
    path.write_text("# A comment, which moves every line.\n\n" + path.read_text())

    assert tiny.run() == (12, [])


@pytest.mark.compiled
def test_an_edit_of_the_room_that_makes_code_compiles_everything(tiny):
    tiny.run()
    path = tiny.package / "kernel" / "compiler" / "passes.py"
    path.write_text(path.read_text() + "\n# another\n")

    assert tiny.run() == (12, ["caller"])


def test_records_are_read_by_attribute_compiled_or_not():
    @kernel
    def left(pairs):
        pairs[1].left += 4
        return pairs[1].left

    pairs = records(2, np.dtype([("left", "i8"), ("right", "i8")]))

    assert left(pairs) == 4
    assert pairs["left"].tolist() == [0, 4]


def test_a_lengthened_array_keeps_its_elements_and_ends_in_zeros():
    array = np.array([1, 2])

    assert longer(array, 2) is array
    assert longer(array, 4).tolist() == [1, 2, 0, 0]


def test_lengthened_records_stay_records():
    pairs = records(1, np.dtype([("left", "i8"), ("right", "i8")]))
    pairs[0] = (1, 2)
    lengthened = longer(pairs, 3)

    assert type(lengthened) is type(pairs)
    assert lengthened.tolist() == [(1, 2), (0, 0), (0, 0)]


def test_a_step_can_be_called_from_python_too():
    @step
    def doubled(pairs):
        return pairs[0].left * 2

    pairs = records(1, np.dtype([("left", "i8")]))
    pairs["left"] = 21

    assert doubled(pairs) == 42
