"""What a wheel holds beyond the package: which test shows which requirement of the papers.

``nicscope coverage`` reads it there; in a source tree it reads the tests themselves.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = "nicscope/catalog/requirements/tests.json"


class RequirementsHook(BuildHookInterface):
    """Puts the table into wheels, where the sources that they are built from have tests."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the table and have it included; an editable installation needs none."""
        tests = Path(self.root, "tests")
        if version == "editable" or not tests.is_dir():
            return
        sys.path.insert(0, str(Path(self.root, "src")))
        from nicscope.studies.coverage import tests_by_requirement

        self._table.parent.mkdir(parents=True, exist_ok=True)
        self._table.write_text(json.dumps(tests_by_requirement(tests)), encoding="utf-8")
        build_data["force_include"][str(self._table)] = PLACE

    def finalize(self, *_: Any) -> None:
        """Remove the table: it is in the wheel."""
        self._table.unlink(missing_ok=True)

    @property
    def _table(self) -> Path:
        return Path(self.directory, "requirements-tests.json")
