"""Makes the package importable as ``pyverbs``: the same modules under that name, not copies."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.abc
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs import libibverbs_enums, librdmacm_enums, providers
from nicscope.interfaces.verbs.enumerations import module_of
from nicscope.interfaces.verbs.unsupported import MODULES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.machinery import ModuleSpec
    from types import ModuleType

SURFACE = "nicscope.interfaces.verbs"
MAKERS = f"{SURFACE}.providers"  # any module can be imported from there
# What programs call by a name that says nothing, or by that which it had before.
RENAMED = {"utils": "texts", "enums": "libibverbs_enums", "cm_enums": "librdmacm_enums"}
ENUMERATIONS: dict[str, ModuleType] = {
    "libibverbs_enums": libibverbs_enums,
    "librdmacm_enums": librdmacm_enums,
}


class Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``name`` and what lies in it where the surface is."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._specs: dict[str, Any] = {}

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:  # noqa: ARG002
        """Where a module is, if it is one of ours."""
        if fullname == self._name or fullname.startswith(f"{self._name}."):
            return importlib.util.spec_from_loader(fullname, self)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module of the surface itself."""
        inside = spec.name[len(self._name) + 1 :].split(".")
        place = ".".join(filter(None, [SURFACE, *(RENAMED.get(part, part) for part in inside)]))
        try:
            found = _found(place)
        except ModuleNotFoundError as missing:
            if missing.name != place:
                raise
            raise ModuleNotFoundError(f"No module named {spec.name!r}", name=spec.name) from None
        self._specs[spec.name] = found.__spec__
        return found

    def exec_module(self, module: ModuleType) -> None:
        """Restores the module's own spec: it ran before, and importlib has overwritten that."""
        if module.__spec__ is not None:
            module.__spec__ = self._specs[module.__spec__.name]


@functools.cache
def _found(place: str) -> ModuleType:
    # Barriers and doorbells of the makers' modules are as theirs: there are none.
    if place.startswith(f"{MAKERS}.") or place == f"{SURFACE}.dma_util":
        return providers.module_of(place)
    name = place.removeprefix(f"{SURFACE}.")
    if name in ENUMERATIONS:
        return ENUMERATIONS[name]
    if name in MODULES:
        return module_of(name, MODULES[name])
    return importlib.import_module(place)


@contextlib.contextmanager
def importable_as(name: str) -> Iterator[None]:
    """Within the block, ``import name`` imports the surface."""
    finder = Alias(name)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for each in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
            del sys.modules[each]
