"""``docs/costs.md``: every cost that a platform may state, by who charges it.

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

Every cost that a platform may state under `[costs]`, and who charges it: what a file of your own
has to state for what you want to run. `nicscope platforms new --from NAME` prints a file with all
of them, stated or as comments; [platforms](platforms.md) says how one is written, and what stands
in for one that is not stated. This page is made by `python docs/costs.py --write`, of what charges
the costs.

*For* says for which schemes, or for what, a command charges a cost. *Stated by* counts the
platforms of the catalog that state it, those that combine others included.
"""
PARTS = {  # commands and what a section of the page says of them
    REPLAY: "Of counts: `nicscope replay`, `sweep` and `size`, by scheme.",
    SIMULATE: "Of programs and traces in virtual time: `nicscope simulate`.",
    FLOW: "Of packets alone: `nicscope flow`.",
    LATENCY: "Of messages over a coherent interface: `nicscope latency`.",
}


def page() -> str:
    """All of it: a section for each kind of command, then every cost with all of its users."""
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
