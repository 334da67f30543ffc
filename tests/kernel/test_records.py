"""Records of kernels: what the compiler could take for one another."""

import gc
import importlib
import itertools
import pkgutil
import weakref

import numpy as np
import pytest

import nicscope
from nicscope.kernel.records import Records, as_records, records

ROOMS = ("nicscope.drivers", "nicscope.fabric", "nicscope.memory", "nicscope.nic")


def kinds():
    """Every structured type of the rooms of kernels, by name."""
    found = {}
    for module in pkgutil.walk_packages(nicscope.__path__, "nicscope."):
        if module.name.startswith(ROOMS):
            for name, value in vars(importlib.import_module(module.name)).items():
                if isinstance(value, np.dtype) and value.names:
                    found.setdefault(value, f"{module.name}.{name}")
    return {name: kind for kind, name in found.items()}


KINDS = kinds()
RECORDS = {name: list(kind.fields.items()) for name, kind in KINDS.items()}


def test_no_record_begins_with_all_of_another():
    begins = [
        (whole, part)
        for whole, part in itertools.permutations(RECORDS, 2)
        if RECORDS[whole][: len(RECORDS[part])] == RECORDS[part]
    ]

    assert len(RECORDS) > 40
    assert begins == []  # the compiler would use code of the part for the whole, and warn


def test_no_field_of_a_record_is_a_record():
    within = [
        f"{name}.{field}"
        for name, fields in RECORDS.items()
        for field, (kind, *_) in fields
        if kind.base.names
    ]

    assert within == []  # interpreted code would find no attributes there


def test_plain_python_gets_every_record_as_a_structure():
    array_of = {name: records(1, np.dtype(kind)) for name, kind in KINDS.items()}

    assert [name for name, array in array_of.items() if isinstance(array[0], np.void)] == []


KIND = np.dtype(
    [("wide", "i8"), ("small", "u1"), ("told", "b1"), ("signed", "i4"), ("real", "f8")], align=True
)
VALUES = (-(1 << 62), 200, True, -7, 2.5)


@pytest.mark.parametrize(
    ("shape", "at"), [((5,), (3,)), ((5,), (-1,)), ((3, 4), (1, -2)), ((2, 3, 4), (1, 0, 3))]
)
def test_a_record_in_plain_python_is_the_memory_of_the_array(shape, at):
    array = records(shape, KIND)
    record = array
    for index in at:
        record = record[np.int64(index)]
    same = array[at]
    for name, value in zip(KIND.names, VALUES, strict=True):
        setattr(record, name, value)
        assert getattr(same, name) == same[name] == record[name] == value
        assert array[name][at] == value
        assert np.count_nonzero(array[name]) == 1

    array[name][at] = 4.5
    assert record.real == 4.5


def test_records_are_copied_by_value():
    array = records(3, KIND)
    array[0] = VALUES
    array[2] = array[0]
    array[0].wide = 1

    assert array[2].item() == tuple(array[2]) == VALUES
    assert str(array[2]) == str(VALUES)
    assert array[2] != array[0]
    assert array[1] == records(1, KIND)[0]
    assert array[0].item() == (1, *VALUES[1:])


@pytest.mark.parametrize(
    "view",
    [
        lambda array: array[::2],
        lambda array: array.reshape(2, 3)[:, 1],
        lambda array: array[1:4],
        lambda array: array.copy(),
        lambda array: as_records(array.copy()),
        lambda array: array[[1, 2, 4]],
        lambda array: np.asfortranarray(array.reshape(2, 3))[1],
    ],
)
def test_whatever_part_of_the_records_an_array_has_its_records_are_those(view):
    array = records(6, KIND)
    array["wide"] = range(6)
    part = view(array)

    assert [part[place].wide for place in range(len(part))] == part["wide"].tolist()
    part[1].wide = 77
    assert part["wide"][1] == 77
    assert (77 in array["wide"]) == np.shares_memory(part, array)


def test_what_is_read_only_stays_so_and_what_is_not_there_is_an_error():
    array = records(2, KIND)
    array.flags.writeable = False

    assert array[1].wide == 0
    with pytest.raises(ValueError, match="read-only"):
        array[1].wide = 3
    for place in (2, -3):
        with pytest.raises(IndexError):
            records(2, KIND)[place]
        with pytest.raises(IndexError):
            records((3, 0), KIND)[0][place]


@pytest.mark.parametrize("shape", [(4,), (2, 3)])
@pytest.mark.parametrize("make", [lambda array: array, lambda array: as_records(array.copy())])
def test_records_outlive_their_array_and_memory_goes_with_the_last_of_them(shape, make):
    array = make(records(shape, KIND))
    record = array[0] if len(shape) == 1 else array[0, 0]
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    gone = weakref.ref(root)
    gc.disable()
    try:
        del array, root
        record.wide = 5
        assert record.wide == 5
        del record
        assert gone() is None  # at once, without a search for what refers to itself
    finally:
        gc.enable()


def test_one_fields_numbers_are_a_plain_array():
    array = records(3, KIND)

    assert type(array) is Records
    assert type(array["wide"]) is np.ndarray
