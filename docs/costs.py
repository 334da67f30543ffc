"""``docs/costs.md``: every cost that a platform may state, by the commands that charge it.

    python docs/costs.py            prints the page
    python docs/costs.py --write    puts it into docs/costs.md

A test holds the page against it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from nicscope.config.costs import COSTS
from nicscope.studies.pricing import FLOW, LATENCY, REPLAY, SIMULATE, cost_uses

PAGE = Path(__file__).parent / "costs.md"
HEAD = """# Costs

Every cost that a platform may state under `[costs]`, and the commands that charge it: look up here
which costs a platform file of your own has to state. `nicscope platforms new --from NAME` prints a
file with all of them, stated or as comments; [platforms](platforms.md) describes the file, and the
replacement of a cost that is not stated. `python docs/costs.py --write` makes this page from the
code that charges the costs.

The column *for* names the schemes, or the kind of run, for which a command charges a cost.
"""
PARTS = {  # commands, and the line below the heading of each
    REPLAY: "Prices of counts: `nicscope replay`, `sweep` and `size`, by scheme.",
    SIMULATE: "Programs and traces in virtual time: `nicscope simulate`.",
    FLOW: "Packets alone: `nicscope flow`.",
    LATENCY: "Messages over a coherent interface: `nicscope latency`.",
}


def page() -> str:
    """The whole page: a section for each kind of command, then every cost with all its users."""
    uses = cost_uses()
    lines = [HEAD]
    for who, told in PARTS.items():
        lines += [f"## {who.capitalize()}", "", told, ""]
        lines += ["| cost | pays for | for |", "|---|---|---|"]
        lines += [
            f"| `{name}` | {kind.meaning} | {uses[name][who]} |"
            for name, kind in COSTS.items()
            if who in uses[name]
        ]
        lines.append("")
    lines += ["## All", "", "| cost | unit | per | by size of | charged by |"]
    lines.append("|---|---|---|---|---|")
    for name, kind in COSTS.items():
        lines.append(
            f"| `{name}` | {'ns/B' if kind.by_byte else 'us'} | {kind.per} | "
            f"{kind.size_of or ''} | {'; '.join(uses[name])} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page())
    else:
        print(page(), end="")
