"""What a function was given, in the words of the command line that gives the same again.

Numbers and arrays of NumPy are as good as Python's.  What is of a type that no option takes is told
here, by the name of the parameter; what makes no sense is told by whoever reads the words.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from nicscope.config.quantities import BYTE_SPELLINGS, read_bytes
from nicscope.errors import StudyError

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


def texts(given: str | Iterable[str] | None) -> list[str]:
    """The texts ``given`` one by one, or the one that is no list; of None, none."""
    return [given] if isinstance(given, str) else [*(given or ())]


def word(what: str, value: Word) -> str | None:
    """``value`` as the option ``what`` is spelt: a list with commas between; None stays None.

    Errors: ``StudyError`` for what no option takes, and for an empty list.
    """
    value = _plain(value)
    if value is None:
        return None
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return _one(what, value)
    listed = [_one(what, one) for one in value]
    if not listed:
        raise StudyError(f"{what}: an empty list; give at least one value")
    return ",".join(listed)


def span(what: str, value: Word) -> str | None:
    """As ``word``, of a range: its two ends, or a text such as ``64..8192``."""
    value = _plain(value)
    if isinstance(value, list | tuple) and len(value) == 2:
        return "..".join(_one(what, end) for end in value)
    return word(what, value)


def whole(what: str, value: int | None) -> int | None:
    """``value`` as a whole number of Python; None stays None.  Errors: ``StudyError``."""
    if value is None:
        return None
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise StudyError(f"{what} must be a whole number, got {value!r}")


def number(what: str, value: float | None) -> float | None:
    """``value`` as a number of Python; None stays None.  Errors: ``StudyError``."""
    plain = _plain(value)
    if isinstance(plain, bool) or not isinstance(plain, int | float | None):
        raise StudyError(f"{what} must be a number, got {value!r}")
    return plain


def byte_count(what: str, value: str | int | None) -> int | None:
    """The bytes that a number or a text such as ``"8KiB"`` stands for; None stays None.

    Errors: ``StudyError``.
    """
    if not isinstance(value, str):
        return whole(what, value)
    count = read_bytes(value)
    if count is None:
        raise StudyError(f"{what}: {value!r} is no whole number of bytes, {BYTE_SPELLINGS}")
    return count


def assignments(given: str | Iterable[str] | None, settings: Mapping[str, Word]) -> list[str]:
    """``given``, as ``--set`` takes them, then ``settings`` by name; None removes a limit."""
    return [*texts(given), *(f"{key}={_one(key, value)}" for key, value in settings.items())]


def _one(what: str, value: Any) -> str:
    value = _plain(value)
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | Path):
        return str(value)
    if isinstance(value, int | float):
        return repr(value)
    raise StudyError(
        f"{what}: {type(value).__name__!r} is none of its values; give a number, a text or a list"
    )


def _plain(value: Any) -> Any:
    """A number, or an array, of NumPy as Python has it; anything else as it is."""
    return value.tolist() if hasattr(value, "tolist") else value
