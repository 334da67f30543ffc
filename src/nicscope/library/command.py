"""What a function was given, in the words of the command line that gives the same again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from nicscope.errors import StudyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

One: TypeAlias = "str | int | float | bool | Path | None"
Word: TypeAlias = "One | Iterable[One]"


def command_line(words: Iterable[Any], options: Mapping[str, Any]) -> list[str]:
    """Arguments that give the same numbers again; none if a table or an object is among them.

    ``options``: those that were not left out.  None and False are left out after all, True is an
    option without a value, and of a list each value has the option before it.
    """
    command = ["nicscope", *words]
    for option, value in options.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            if one is True:
                command.append(option)
            elif one is not None and one is not False:
                command += [option, one]
    if not all(isinstance(one, str | Path | int | float) for one in command):
        return []
    return [str(one) if isinstance(one, str | Path) else repr(one) for one in command]


def several(things: Any) -> list[Any]:
    """The ``things`` of a list, or the one that is none; of None, none."""
    if things is None:
        return []
    return list(things) if isinstance(things, list | tuple) else [things]


def word(what: str, value: Word) -> str | None:
    """``value`` as the option ``what`` is spelt: a list with commas between; None stays None.

    Errors: ``StudyError`` for what no option takes.
    """
    if value is None:
        return None
    if isinstance(value, str | bool | int | float | Path) or hasattr(value, "item"):
        return _one(what, value)
    try:
        return ",".join(_one(what, one) for one in value)
    except TypeError:
        raise _no_word(what, value) from None


def span(what: str, value: Word) -> str | None:
    """As ``word``, of a range: its two ends, or a text such as ``64..8192``."""
    if isinstance(value, list | tuple) and len(value) == 2:
        return "..".join(_one(what, end) for end in value)
    return word(what, value)


def assignments(given: Iterable[str] | None, settings: Mapping[str, Word]) -> list[str]:
    """``given``, as ``--set`` takes them, then ``settings`` by name; None removes a limit."""
    return [*(given or []), *(f"{key}={_one(key, value)}" for key, value in settings.items())]


def _one(what: str, value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | Path):
        return str(value)
    plain = value.item() if hasattr(value, "item") else value  # a number of NumPy
    if isinstance(plain, int | float):
        return repr(plain)
    raise _no_word(what, value)


def _no_word(what: str, value: Any) -> StudyError:
    return StudyError(
        f"{what}: {type(value).__name__!r} is none of its values; give a number, a text or a list"
    )
