"""Which lines of the firmware each test runs, and how long it takes: kept between runs.

What is kept of a file of tests holds as long as the firmware and that file stay as they are.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coverage import Coverage

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pytest


@dataclass(frozen=True)
class Footprint:
    """What one test runs."""

    test: str
    seconds: float
    lines: dict[str, frozenset[int]]  # by path from the root of the checkout

    def meets(self, path: str, lines: Iterable[int]) -> bool:
        """Whether the test runs one of ``lines`` of ``path``."""
        return not self.lines.get(path, frozenset()).isdisjoint(lines)


class Cabinet:
    """The footprints of the tests of one state of the firmware, a paper for each file of tests."""

    def __init__(self, folder: Path, root: Path, firmware: Iterable[Path]) -> None:
        self.folder, self.root = folder, root
        self.firmware = sorted(firmware)
        self.digest = hashlib.sha256()
        for path in self.firmware:
            self.digest.update(path.read_bytes())

    def paper(self, tests: Path) -> Path:
        """Where the footprints of a file of tests are kept."""
        digest = self.digest.copy()
        digest.update(tests.read_bytes())
        return self.folder / f"{tests.stem}-{digest.hexdigest()[:16]}.json"

    def kept(self, tests: Path) -> list[Footprint]:
        """The footprints of the tests of a file; none if they are not kept."""
        if not self.paper(tests).exists():
            return []
        return [
            Footprint(test, seconds, {path: frozenset(run) for path, run in lines.items()})
            for test, seconds, lines in json.loads(self.paper(tests).read_text())
        ]

    def take(self, tests: Path, items: list[pytest.Item]) -> None:
        """Run ``items``, the tests of one file, and keep the footprints of those that pass."""
        taken = [print_ for item in items if (print_ := self._footprint(item)) is not None]
        self.folder.mkdir(exist_ok=True)
        part = self.paper(tests).with_suffix(".part")
        part.write_text(json.dumps(taken))
        part.rename(self.paper(tests))

    def _footprint(self, item: pytest.Item) -> tuple[str, float, dict[str, list[int]]] | None:
        firmware = [str(path) for path in self.firmware]
        coverage = Coverage(data_file=None, config_file=False, include=firmware)
        coverage.set_option("run:disable_warnings", ["no-data-collected"])
        began = time.process_time()
        coverage.start()
        try:
            passed = passes(item)
        finally:
            coverage.stop()
        seconds = time.process_time() - began
        data = coverage.get_data()
        lines = {
            file.removeprefix(f"{self.root}/"): sorted(data.lines(file) or ())
            for file in data.measured_files()
        }
        return (item.nodeid, seconds, lines) if passed else None


def passes(item: pytest.Item) -> bool:
    """Whether one test runs and passes."""
    from _pytest.runner import runtestprotocol

    reports: list[Any] = runtestprotocol(item, log=False, nextitem=None)
    ran = any(report.when == "call" for report in reports)
    return ran and all(report.outcome == "passed" or report.skipped for report in reports)
