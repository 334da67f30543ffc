"""A key changes with all that code is made from, and with nothing else."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import types
from collections import namedtuple

import pytest

import nicscope
from nicscope.kernel.fingerprint import UnknownGlobalError, digest_of_function
from nicscope.kernel.settings import STEPS, Compiled, numba_settings

HEAD = """
import enum
import numpy as np
from typing import NamedTuple
class Color(enum.IntEnum):
    RED = {red}
class Pair(NamedTuple):
    {field}: int
TABLE = np.array([1, {element}])
DTYPE = np.dtype([("a", "{kind}")])
NUMBER = {number}
"""
BODY = """
def inner(x):
    return x * {factor}
def outer(x, y):
    \"\"\"{docstring}\"\"\"
    # {comment}
    if x == Color.RED:
        return inner(y) + NUMBER
    return TABLE[x] + Pair(y).{field} + DTYPE.itemsize + np.{function}(x)
"""
PLAIN = {
    "red": 1,
    "field": "left",
    "element": 2,
    "kind": "i8",
    "number": 10,
    "factor": 3,
    "docstring": "First.",
    "comment": "one",
    "function": "int64",
}


def digest(**changes):
    space: dict = {"__name__": "nicscope.made"}
    values = {**PLAIN, **changes}
    exec((HEAD + BODY).format(**values), space)
    STEPS[space["inner"]] = STEPS[space["outer"]] = Compiled()
    return digest_of_function(space["outer"])


@pytest.mark.parametrize(
    "change",
    [
        {"red": 5},
        {"field": "right"},
        {"element": 3},
        {"kind": "i4"},
        {"number": 11},
        {"number": 10.0},
        {"factor": 4},
        {"function": "int32"},
    ],
)
def test_a_change_of_what_is_called_or_named_changes_the_key(change):
    assert digest() == digest()
    assert digest(**change) != digest()


@pytest.mark.parametrize("change", [{"docstring": "Another."}, {"comment": "two\n    # lines"}])
def test_words_about_a_kernel_change_nothing(change):
    assert digest(**change) == digest()


def test_what_no_digest_can_stand_for_is_refused():
    def names_a_list(x):
        return LIST[x]

    def names_no_kernel(x):
        return names_a_list(x)

    for function in (names_a_list, names_no_kernel):
        copy = types.FunctionType(
            function.__code__, {"LIST": [1]}, function.__name__, None, function.__closure__
        )
        STEPS[copy] = Compiled()
        with pytest.raises(UnknownGlobalError, match=r"for whose value|is called by a kernel"):
            digest_of_function(copy)


LIST: list[int] = []


def test_every_kernel_of_the_package_has_a_key():
    for module in pkgutil.walk_packages(nicscope.__path__, "nicscope."):
        ending = module.name.rpartition(".")[2]
        if ending not in {"__main__", "server"} and ".compiler" not in module.name:
            with contextlib.suppress(ModuleNotFoundError):  # of an extra that is not installed
                importlib.import_module(module.name)
    ours = [each for each in STEPS if str(each.__module__).startswith("nicscope.")]

    assert len(ours) > 800
    for function in ours:
        digest_of_function(function)


def test_the_order_of_names_counts_where_a_value_is_taken_by_its_name():
    first, other = ({"__name__": "nicscope.made"} for _ in range(2))
    for space, names in ((first, "left right"), (other, "right left")):
        source = "def of(left, right):\n    return PAIR.left\n"
        space["PAIR"] = namedtuple("Pair", names)(1, 2)
        exec(source, space)
        STEPS[space["of"]] = Compiled()

    assert digest_of_function(first["of"]) != digest_of_function(other["of"])


def test_the_names_of_arguments_count_as_calls_may_use_them():
    first, other = ({"__name__": "nicscope.made"} for _ in range(2))
    exec("def of(left, right):\n    return left\n", first)
    exec("def of(right, left):\n    return right\n", other)
    STEPS[first["of"]] = STEPS[other["of"]] = Compiled()

    assert digest_of_function(first["of"]) != digest_of_function(other["of"])


def test_what_numba_is_told_of_the_processor_counts(monkeypatch):
    before = numba_settings()
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")

    assert numba_settings() != before
