"""Survivors that were looked at and change nothing that can be seen, each with the reason."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from places import Mutant


@functools.cache
def _judged() -> frozenset[tuple[str, str, str]]:
    table = tomllib.loads(Path(__file__).with_name("judged.toml").read_text())
    return frozenset((each["file"], each["before"], each["after"]) for each in table["equivalent"])


def judged_equivalent(mutant: Mutant) -> bool:
    """Whether ``mutant`` is in ``judged.toml``."""
    return (mutant.path.as_posix(), mutant.before, mutant.after) in _judged()
