"""Finding and opening TOML files: the catalog's by name, a user's by path."""

from __future__ import annotations

import tomllib
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.errors import NicscopeError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CATALOG = Path(__file__).parent.parent / "catalog"


def shelf_names(shelf: str) -> list[str]:
    """Names of the catalog's files in the folder ``shelf``, sorted."""
    return sorted(path.stem for path in (CATALOG / shelf).glob("*.toml"))


def packed(shelf: str, name: str) -> bytes | None:
    """What the build of an installation put on the shelf as ``name``; None in a source tree."""
    path = CATALOG / shelf / name
    return path.read_bytes() if path.is_file() else None


def open_shelf(
    shelf: str, name_or_path: str | Path, error: type[NicscopeError]
) -> tuple[str, str, dict[str, Any]]:
    """Name, what to call it in messages, and content of a catalog entry or of a ``.toml`` file.

    Numbers with a point arrive as ``Decimal``.  Errors: ``error`` if it does not exist, cannot
    be read, or is not TOML.
    """
    text = str(name_or_path)
    is_path = isinstance(name_or_path, Path) or "/" in text or text.endswith(".toml")
    path = Path(text) if is_path else CATALOG / shelf / f"{text}.toml"
    called = text if is_path else f"{shelf.removesuffix('s')} {text!r}"
    if not is_path and text not in shelf_names(shelf):
        raise error(f"no {shelf.removesuffix('s')} {text!r}{_nearest(text, shelf_names(shelf))}")
    try:
        content = tomllib.loads(path.read_bytes().decode(), parse_float=Decimal)
    except OSError as problem:
        raise error(f"{called}: cannot be read: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise error(f"{called}: is not a text file in UTF-8") from problem
    except ArithmeticError as problem:
        raise error(f"{called}: is not TOML: a number is too large to read") from problem
    except ValueError as problem:  # a syntax error, or an integer of thousands of digits
        raise error(f"{called}: is not TOML: {problem}") from problem
    return path.stem, called, content


def read_text(
    content: Mapping[str, Any], key: str, default: str, called: str, error: type[NicscopeError]
) -> str:
    """Text under ``key``, or ``default`` if there is none; ``error`` if it is no text."""
    given = content.get(key, default)
    if not isinstance(given, str):
        raise error(f"{called}: {key} must be text, got {given!r}")
    return given


def read_texts(
    content: Mapping[str, Any], key: str, called: str, error: type[NicscopeError]
) -> dict[str, str]:
    """Table of texts under ``key``, empty if there is none; ``error`` if it is no such table."""
    given = content.get(key, {})
    if not isinstance(given, dict):
        raise error(f"{called}: {key} must be a table of texts, got {given!r}")
    return {name: read_text(given, name, "", f"{called}: {key}", error) for name in given}


def _nearest(text: str, names: Sequence[str]) -> str:
    return f"{did_you_mean(text, names)} (or give the path of a .toml file)"
