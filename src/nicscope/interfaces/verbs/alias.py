"""The surface under the name that programs import it by: the same modules, not copies."""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.machinery import ModuleSpec
    from types import ModuleType

SURFACE = "nicscope.interfaces.verbs"
MAKERS = f"{SURFACE}.providers"  # any module can be imported from there
RENAMED = {"utils": "texts"}  # what programs call by a name that says nothing


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
        """It has run already; the import system has overwritten where it comes from."""
        if module.__spec__ is not None:
            module.__spec__ = self._specs[module.__spec__.name]


def _found(place: str) -> ModuleType:
    if place.startswith(f"{MAKERS}."):
        found: ModuleType = importlib.import_module(MAKERS).module_of(place)
        return found
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
