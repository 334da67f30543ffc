"""Real traces that come with nicscope, recorded with ``nicscope record``.

The command that each one recorded stands in its metadata, and ``docs/recording.md`` says what
they show.
"""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent


def bundled_traces() -> dict[str, Path]:
    """The files of the bundled traces, by name, in the order of their names."""
    return {path.stem: path for path in sorted(_FOLDER.glob("*.parquet"))}
