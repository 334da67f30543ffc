"""Modules that lie beside programs: theirs alone, and gone when they have ended.

Programs of several nodes are as many processes to whoever writes them, so each imports such a
module for itself, and one that waits amid an import keeps no other from importing the same.
"""

from __future__ import annotations

import importlib._bootstrap
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

OURS = {"nicscope", "pyverbs", "__main__"}  # which all programs share, wherever it lies
# Of modules that are being imported, by name: weak references (Python 3.11 to 3.13).  A Python that
# keeps them elsewhere has programs wait for each other's imports of modules of one name.
_locks: dict[str, Any] = getattr(importlib._bootstrap, "_module_locks", {})


def folder_of(path: Path) -> str:
    """Where the modules beside a program are."""
    return str(path.resolve().parent)


def is_of(name: str, folders: set[str]) -> bool:
    """Whether a module that was imported is one of these folders, or in a package of theirs."""
    top = name.partition(".")[0]
    module = sys.modules.get(top)
    if module is None or top in OURS:
        return False
    places = [*getattr(module, "__path__", ())]
    file = getattr(module, "__file__", None)
    if not places and file:
        places = [file]
    return not folders.isdisjoint(os.path.realpath(Path(place).parent) for place in places)


def forget_modules(folders: Sequence[str], loaded: set[str]) -> None:
    """Leave no module behind that lies beside a program, but for those that were ``loaded``."""
    for name in [name for name in {*sys.modules} - loaded if is_of(name, {*folders})]:
        del sys.modules[name]


class OwnModules:
    """The modules of each node's program, which sees its own while it goes on.

    Those are its own that lie beside it, or in a folder that it has had searched.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = folders
        self._given = {*sys.path}
        self._shared = {*sys.modules}
        self._own: list[dict[str, Any]] = [{} for _ in folders]
        self._held: list[dict[str, Any]] = [{} for _ in folders]  # locks
        self._many = len(sys.modules)

    def enter(self, node: int) -> None:
        """The program of a node goes on."""
        sys.modules.update(self._own[node])
        _locks.update(self._held[node])
        self._many = len(sys.modules)

    def leave(self, node: int) -> None:
        """Another goes on."""
        names = {*self._own[node]}
        if len(sys.modules) != self._many:
            added = (os.path.realpath(each) for each in sys.path if each not in self._given)
            folders = {self._folders[node], *added}
            for name in {*sys.modules} - self._shared - names:
                (names if is_of(name, folders) else self._shared).add(name)
        self._own[node] = {name: sys.modules.pop(name) for name in names if name in sys.modules}
        self._held[node] = dict(_locks)
        _locks.clear()
