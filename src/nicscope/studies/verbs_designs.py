"""The designs that programs of verbs are run on, with what is set on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.config.design import load_design, with_settings
from nicscope.errors import DesignError

if TYPE_CHECKING:
    from collections.abc import Sequence


def with_all_set(designs: Sequence[Any], assignments: Sequence[str]) -> list[Any]:
    """``designs``, None for the device's own, each with every ``KEY=VALUE`` of ``assignments``.

    Errors: ``DesignError`` for a design or a value that cannot be.
    """
    from nicscope.interfaces.verbs_device.fabric import DESIGN

    if not assignments:
        return [*designs]
    found = []
    for each in designs:
        design = load_design(DESIGN if each is None else each)
        try:
            found.append(with_settings(design, assignments))
        except DesignError as error:
            called = f"design {design.name!r}"
            raise DesignError(
                str(error) if str(error).startswith(called) else f"{called}: {error}"
            ) from error
    return found
