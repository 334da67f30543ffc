"""Survivors that were looked at and change nothing that can be seen, each with the reason."""

from __future__ import annotations

import functools
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from places import Mutant


@functools.cache
def _judged() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("judged.toml").read_text())


def judged_equivalent(mutant: Mutant) -> bool:
    """Whether ``judged.toml`` has ``mutant``, by itself or as one of a kind."""
    path = mutant.path.as_posix()
    changes = (change for each in _judged()["equivalent"] for change in each["changes"])
    if [path, mutant.before, mutant.after] in changes:
        return True
    return any(
        path.startswith(tuple(f"src/nicscope/{part}" for part in each["within"]))
        and _is_of_kind(each, mutant)
        for each in _judged()["kind"]
    )


def _is_of_kind(kind: dict[str, Any], mutant: Mutant) -> bool:
    """Whether one place that the kind's pattern fits, written its way, makes the mutant's line."""
    wanted = _spelled(mutant.after)
    return any(
        _spelled(mutant.before[: found.start()] + found.expand(new) + mutant.before[found.end() :])
        == wanted
        for old, *become in kind["changes"]
        for found in re.finditer(old, mutant.before)
        for new in become
    )


def _spelled(line: str) -> str:
    return re.sub(r"\s", "", line)
