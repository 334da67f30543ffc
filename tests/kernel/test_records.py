"""Records of kernels: what the compiler could take for one another."""

from __future__ import annotations

import importlib
import itertools
import pkgutil

import numpy as np

import nicscope

ROOMS = ("nicscope.drivers", "nicscope.fabric", "nicscope.memory", "nicscope.nic")


def records():
    """Every structured type of the rooms of kernels, by name."""
    found = {}
    for module in pkgutil.walk_packages(nicscope.__path__, "nicscope."):
        if module.name.startswith(ROOMS):
            for name, value in vars(importlib.import_module(module.name)).items():
                if isinstance(value, np.dtype) and value.names:
                    found.setdefault(value, f"{module.name}.{name}")
    return {name: list(kind.fields.items()) for kind, name in found.items()}


RECORDS = records()


def test_no_record_begins_with_all_of_another():
    begins = [
        (whole, part)
        for whole, part in itertools.permutations(records(), 2)
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
