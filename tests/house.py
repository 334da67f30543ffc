"""Prints how large ``src/`` is and what its modules import in circles: ``make house``.

Lines and files by room, then each set of modules that import each other: at run time, and with what
only the type checker reads or a function imports when it is called.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "nicscope"


def module_of(path: Path) -> str:
    """The dotted name of a source file."""
    parts = ("nicscope", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.Module, known: set[str], *, at_run_time: bool) -> set[str]:
    """The modules of the package that ``tree`` names, all of them or those of its first run."""
    nodes = tree.body if at_run_time else ast.walk(tree)
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in known else node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & known


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The sets of modules of which each imports every other, straight or by others."""

    def reached(begin: str, edges: dict[str, set[str]]) -> set[str]:
        seen, waiting = {begin}, [begin]
        while waiting:
            new = edges[waiting.pop()] - seen
            seen |= new
            waiting += new
        return seen

    back: dict[str, set[str]] = {name: set() for name in graph}
    for name, others in graph.items():
        for other in others:
            back[other].add(name)
    found: list[list[str]] = []
    placed: set[str] = set()
    for name in graph:
        if name not in placed:
            together = reached(name, graph) & reached(name, back)
            placed |= together
            if len(together) > 1:
                found.append(sorted(together))
    return found


def main() -> int:
    """Print the figures."""
    paths = sorted(PACKAGE.rglob("*.py"))
    lines = {path: len(path.read_text().splitlines()) for path in paths}
    rooms: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for path, count in lines.items():
        room = path.relative_to(PACKAGE).parts[0] if path.parent != PACKAGE else "(itself)"
        rooms[room] += count
        files[room] += 1
    print(f"{'room':14}{'lines':>9}{'files':>7}")
    for room, count in rooms.most_common():
        print(f"{room:14}{count:9,}{files[room]:7}")
    print(f"{'all':14}{sum(rooms.values()):9,}{len(paths):7}")
    trees = {module_of(path): ast.parse(path.read_text()) for path in paths}
    for title, first in (("at run time", True), ("with types and late imports", False)):
        graph = {name: imports(tree, {*trees}, at_run_time=first) for name, tree in trees.items()}
        found = circles(graph)
        print(f"sets of modules that import each other, {title}: {len(found)}")
        for each in found:
            shown = ", ".join(one.removeprefix("nicscope.") for one in each[:4])
            print(f"{len(each):5}  {shown}{', ...' if len(each) > 4 else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
