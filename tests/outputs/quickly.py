"""Commands run one after the other in this process, as fast as what is looked at allows.

What a command counts is counted once and then again and again taken from there, and instead of its
figures' pixels there are a few bytes: which files it writes, and the calls that write them, stay
what they are.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.figure import Figure

from every_command import made
from nicscope.cli.app import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest
    from commands import Case

# What counts for long without the compiler, and users who take their time.
SLOW = {
    "nicscope.studies.collectives": "measure",
    "nicscope.studies.size_search": "report",
    "nicscope.studies.latency": "measure",
    "nicscope.studies.flow": "report",
    "nicscope.studies.fitting": "fit",
    "nicscope.studies.paging_on_demand": "page_on_demand",
    "nicscope.studies.interactive": "run_session",
}


class Ended(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


class Commands:
    """Runs commands and remembers what does not change between two runs of one."""

    def __init__(self, inputs: Path, patch: pytest.MonkeyPatch) -> None:
        self._inputs = inputs
        self._case: Any = None
        traces = {"tiny": made("trace", inputs)}
        patch.setattr("nicscope.traces.bundled.bundled_traces", lambda: traces)
        patch.setattr(Figure, "savefig", _save)
        for module, name in SLOW.items():
            patch.setattr(f"{module}.{name}", self._once(module, name))

    def run(self, captured: Any, case: Case, out: Path | str, *options: str) -> Ended:
        """Run the command of ``case`` so that it writes ``out``."""
        self.name(" ".join(case.run.words(self._inputs, out="OUT")))
        captured.readouterr()
        status = main(case.run.words(self._inputs, *options, out=out))
        return Ended(status, *captured.readouterr())

    def name(self, words: str) -> None:
        """Say which command line is run next: what is remembered is its own."""
        self._case = words

    def _once(self, module: str, name: str) -> Callable[..., Any]:
        real, found = getattr(importlib.import_module(module), name), {}

        def once(*arguments: Any, **keywords: Any) -> Any:
            if self._case not in found:
                found[self._case] = real(*arguments, **keywords)
            return found[self._case]

        return once


def _save(_figure: Any, target: Any, **look: Any) -> None:
    target.write(f"drawn as {look['format']}\n".encode())
