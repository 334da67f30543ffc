"""Where an experiment lives: ``experiments/<paper>/<id>.py`` defines ``run``.

A new reproduction is an item with expectations in ``catalog/published/<paper>.toml``, committed
first, and then a module of the same name here; nothing else knows of it.  A study, which runs
over any traces, is ``STUDY`` of ``traced/<paper>/<id>.py``.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING

from nicscope.studies.reproduce import experiments, traced
from nicscope.studies.reproduce.verdict import Item, Outcome

if TYPE_CHECKING:
    from types import ModuleType

    from nicscope.studies.reproduce.traced.study import Study

Experiment = Callable[[Item], Outcome]


def find_experiment(paper: str, item: str) -> Experiment:
    """The experiment for that item; imports it, and with it what it needs."""
    module = importlib.import_module(f"{experiments.__name__}.{paper}.{item}")
    run: Experiment = module.run
    return run


def find_study(paper: str, item: str) -> Study:
    """The study of that item."""
    module = importlib.import_module(f"{traced.__name__}.{paper}.{item}")
    study: Study = module.STUDY
    return study


def experiment_names() -> set[tuple[str, str]]:
    """(paper, id) of every experiment, found without importing any."""
    return _names(experiments)


def study_names() -> set[tuple[str, str]]:
    """(paper, id) of every study, found without importing any."""
    return _names(traced)


def _names(package: ModuleType) -> set[tuple[str, str]]:
    found = set()
    for paper in pkgutil.iter_modules(package.__path__):
        folder = [f"{place}/{paper.name}" for place in package.__path__]
        found |= {(paper.name, item.name) for item in pkgutil.iter_modules(folder)}
    return found
