"""JSON as it is printed and as it is written to files."""

from __future__ import annotations

import json
from typing import Any


def json_text(plain: Any, *, ascii_only: bool = False) -> str:
    """One JSON document, with a newline; bytes of a file's name that are no text are escaped."""
    text = json.dumps(plain, indent=2, ensure_ascii=ascii_only)
    return text.encode("utf-8", "backslashreplace").decode() + "\n"
