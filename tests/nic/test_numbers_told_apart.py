"""Numbers that stand for states, reasons and kinds: within a group no two are the same."""

import ast
import importlib
from pathlib import Path

import nicscope
from nicscope.memory.paging import layout as paging
from nicscope.nic.ports import connection, work_queues

PACKAGE = Path(nicscope.__file__).parent
ROOMS = ("nic", "memory", "host", "drivers/translation")
# What stands among them and is no one of them: how many there are, or another question's answer.
OF_THEIR_OWN = {
    "nicscope.nic.cache": {"FOUR", "REFUSED"},
    "nicscope.nic.coherent": {"FALL_BACK"},
    "nicscope.nic.delivery": {"TASKS", "MISSING"},
    "nicscope.nic.linked": {"REFUSED"},
    "nicscope.nic.ports.streams": {"AT_ONCE", "FIRST"},
    "nicscope.nic.ports.traffic": {"FIRST_DROPPED"},
}


def groups(source):
    """Names in capitals that whole numbers are given to on lines one after the other."""
    found, last = [], None
    for node in ast.parse(source).body:
        names = [each.id for each in getattr(node, "targets", []) if isinstance(each, ast.Name)]
        if len(names) == 1 and names[0].isupper():
            if last is None or node.lineno != last + 1:
                found.append([])
            found[-1].append(names[0])
            last = node.end_lineno
    return found


def numbers(module, names):
    own = OF_THEIR_OWN.get(module.__name__, set())
    values = {name: getattr(module, name) for name in names if name not in own}
    return {name: value for name, value in values.items() if type(value) is int}


def test_no_two_numbers_of_a_group_are_the_same():
    same, looked_at = [], 0
    for path in sorted(path for room in ROOMS for path in (PACKAGE / room).rglob("*.py")):
        dotted = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        module = importlib.import_module(dotted.removesuffix(".__init__"))
        for names in groups(path.read_text()):
            values = numbers(module, names)
            looked_at += len(values) > 1
            if len(set(values.values())) < len(values):
                same.append((module.__name__, values))

    assert same == []
    assert looked_at > 30


def test_what_stands_in_place_of_an_error_is_no_error():
    async_errors = next(
        g for g in groups(Path(work_queues.__file__).read_text()) if "POSTED_BADLY" in g
    )

    assert len(async_errors) > 5
    assert connection.NO_ASYNC_ERROR not in {getattr(work_queues, name) for name in async_errors}


def test_why_not_is_below_zero_and_what_is_to_be_done_is_not():
    reasons = ("DENIED", "NOT_MAPPED", "NO_FRAME", "LIMIT", "ALREADY_MAPPED", "OUTSIDE")

    assert all(getattr(paging, name) < 0 for name in reasons)
    assert paging.READY == 0 < min(paging.ZERO, paging.COPY, paging.DISK)
