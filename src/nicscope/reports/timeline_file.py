"""A timeline as one file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nicscope.outputs import whole_file

if TYPE_CHECKING:
    from pathlib import Path


def timeline_text(timeline: dict[str, Any]) -> str:
    """The file's text: one JSON object on one line."""
    return json.dumps(timeline) + "\n"


def write_timeline(timeline: dict[str, Any], path: Path) -> Path:
    """The file ``path``; errors: ``OutputError``, ``ReaderGone``."""
    with whole_file(path) as file:
        file.write(timeline_text(timeline).encode())
    return path
