"""Where an experiment lives: ``experiments/<paper>/<id>.py`` defines ``run``.

A new reproduction is an item with expectations in ``catalog/published/<paper>.toml``, committed
first, and then a module of the same name here; nothing else knows of it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from nicscope.studies.reproduce import experiments
from nicscope.studies.reproduce.expectation import Item
from nicscope.studies.reproduce.verdict import Outcome

Experiment = Callable[[Item], Outcome]


def find_experiment(paper: str, item: str) -> Experiment:
    """The experiment for that item; imports it, and with it what it needs."""
    module = importlib.import_module(f"{experiments.__name__}.{paper}.{item}")
    run: Experiment = module.run
    return run


def experiment_names() -> set[tuple[str, str]]:
    """(paper, id) of every experiment, found without importing any."""
    found = set()
    for paper in pkgutil.iter_modules(experiments.__path__):
        folder = [f"{place}/{paper.name}" for place in experiments.__path__]
        found |= {(paper.name, item.name) for item in pkgutil.iter_modules(folder)}
    return found
