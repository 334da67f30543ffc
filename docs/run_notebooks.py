"""Runs the notebooks of the documentation, which are kept with what they printed.

python docs/run_notebooks.py            runs them and tells which print something else now
python docs/run_notebooks.py --write    keeps what they print now
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
LONGEST_S = 600


def ran(path: Path) -> Any:
    """The notebook, with what it prints now; how far a long cell is, on stderr, left out."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=LONGEST_S, kernel_name="python3").execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it ran
        if cell.cell_type == "code":
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
    return notebook


def printed(notebook: Any) -> list[tuple[str, list[str]]]:
    """Of each cell its source, and what it prints as text; pictures are told by being there."""
    return [
        (cell.source, [_as_text(one) for one in cell.get("outputs", [])])
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def _as_text(output: Any) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        return "a picture"
    return str(output.get("text") or data.get("text/plain", output.get("evalue", "")))


def main(arguments: list[str]) -> int:
    """Run each notebook."""
    changed = 0
    for path in NOTEBOOKS:
        now = ran(path)
        if printed(now) != printed(nbformat.read(path, as_version=4)):
            changed += 1
            print(f"{path.relative_to(ROOT)} prints something else now")
        if "--write" in arguments:
            nbformat.write(now, path)
    return 1 if changed and "--write" not in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
