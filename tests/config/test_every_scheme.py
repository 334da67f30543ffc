"""Tables by scheme have a row for each: who adds a scheme learns here which are missing."""

import ast
import importlib
import inspect
import pkgutil

import pytest

import nicscope
from nicscope.config.design import Scheme, design_names, load_design
from nicscope.drivers.translation import CODES, pin_actions_needed
from nicscope.nic.translate import book, requests

# Tables of the schemes that differ from the others in something, and what holds for the rest.
OF_SOME = {
    "drivers.replay.schemes._WITHOUT_CACHE": "their passes are those of a cache",
    "drivers.replay.schemes._INTERLEAVED": "host and NIC go one after the other",
    "drivers.simulate.ports.costs._LOOKUPS": "a lookup costs ni_check",
    "drivers.simulate.ports.costs._CHECKS": "no user library checks",
    "studies.size_search._FIRST": "the design of that name",
    "studies.sizing._PER_MISS": "counts do not follow from misses alone",
}


def tables():
    """Every table of the package by schemes, by where it stands."""
    found = {}
    for each in pkgutil.walk_packages(nicscope.__path__, "nicscope."):
        if each.name.endswith("__main__"):
            continue
        module = importlib.import_module(each.name)
        for name, table in vars(module).items():
            if isinstance(table, dict) and table and all(isinstance(k, Scheme) for k in table):
                found[f"{each.name.removeprefix('nicscope.')}.{name}"] = table
    return found


TABLES = tables()


def test_the_tables_of_some_schemes_are_there():
    assert set(OF_SOME) <= set(TABLES)
    assert all(set(TABLES[name]) < set(Scheme) for name in OF_SOME)


@pytest.mark.parametrize("name", sorted(set(TABLES) - set(OF_SOME)))
def test_a_table_has_a_row_for_every_scheme(name):
    assert set(Scheme) - set(TABLES[name]) == set()


def test_every_scheme_has_a_design_and_a_bound_of_its_pin_actions():
    designs = [load_design(name) for name in design_names()]
    assert {design.scheme for design in designs} == set(Scheme)
    for design in designs:
        assert pin_actions_needed(design.at_page_size(4096), 1) >= 0


@pytest.mark.parametrize(
    ("step", "others"),
    [
        ("ask", {Scheme.HANDLE, Scheme.PINNED}),  # the rest; and an area is never looked up
        ("serve", {Scheme.HANDLE, Scheme.PINNED, Scheme.UTLB_PROCESS}),  # nor is a table missed
    ],
)
def test_in_virtual_time_every_scheme_has_a_branch_of_its_own(step, others):
    """One without would be served as if it were ``handle``, and only its counts would tell."""
    tree = ast.parse(inspect.getsource(requests))
    function = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == step)
    asked = {
        test.comparators[0].id
        for test in ast.walk(function)
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq)
        if isinstance(test.comparators[0], ast.Name)
    }
    names = {name for name in asked if getattr(book, name, None) in CODES.values()}
    have = {scheme for scheme, code in CODES.items() if code in {getattr(book, n) for n in names}}
    assert set(Scheme) - have == others
