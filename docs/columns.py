"""The table of columns in ``docs/outputs.md``, made from the catalog's glossary.

    python docs/columns.py            prints the table
    python docs/columns.py --write    puts it into docs/outputs.md

A test holds the page against it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from nicscope.config.glossary import PATTERN, columns

PAGE = Path(__file__).parent / "outputs.md"
BEGIN, END = "<!-- made by docs/columns.py -->", "<!-- end of what docs/columns.py made -->"


def table() -> str:
    lines = ["| column | unit | what it holds |", "|---|---|---|"]
    for name, column in columns().items():
        shown = name
        if name.startswith(PATTERN):
            shown = re.sub(r"\(([^()]*)\)", lambda found: found[1].replace("|", ", "), name[1:-1])
            shown = shown.replace("[a-z_]+", "NAME")
        lines.append(f"| `{shown}` | {column.unit} | {column.means} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """``text`` with the table between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def main() -> None:
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page(PAGE.read_text()))
    else:
        print(table())


if __name__ == "__main__":
    main()
