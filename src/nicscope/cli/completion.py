"""What a shell offers for the values of options and arguments: names of the catalog.

Where nothing here begins with what is typed, shells offer files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.library.traces import BUNDLED

if TYPE_CHECKING:
    from collections.abc import Sequence


def designs(incomplete: str) -> list[str]:
    """Designs of the catalog that begin with ``incomplete``."""
    from nicscope.config.design import design_names

    return _beginning(design_names(), incomplete)


def platforms(incomplete: str) -> list[str]:
    """Platforms of the catalog that begin with ``incomplete``."""
    from nicscope.config.platform import platform_names

    return _beginning(platform_names(), incomplete)


def language_models(incomplete: str) -> list[str]:
    """Language models of the catalog that begin with ``incomplete``."""
    from nicscope.config.language_model import language_model_names

    return _beginning(language_model_names(), incomplete)


def registrations(incomplete: str) -> list[str]:
    """Costs of registration in the catalog that begin with ``incomplete``."""
    from nicscope.config.registration import registration_names

    return _beginning(registration_names(), incomplete)


def limits(incomplete: str) -> list[str]:
    """Limits of registered memory in the catalog that begin with ``incomplete``."""
    from nicscope.config.region_limits import limit_names

    return _beginning(limit_names(), incomplete)


def hypotheses(incomplete: str) -> list[str]:
    """Hypotheses of the catalog that begin with ``incomplete``."""
    from nicscope.config.hypothesis import hypothesis_names

    return _beginning(hypothesis_names(), incomplete)


def nics(incomplete: str) -> list[str]:
    """NICs of the catalog that begin with ``incomplete``."""
    from nicscope.config.nic_costs import nic_names

    return _beginning(nic_names(), incomplete)


def faults(incomplete: str) -> list[str]:
    """Costs of faults in the catalog that begin with ``incomplete``."""
    from nicscope.config.fault_costs import fault_names

    return _beginning(fault_names(), incomplete)


def paths(incomplete: str) -> list[str]:
    """Costs of paths in the catalog that begin with ``incomplete``."""
    from nicscope.config.path_costs import path_names

    return _beginning(path_names(), incomplete)


def traces(incomplete: str) -> list[str]:
    """Bundled traces, as soon as a letter says that one is meant, as most traces are files."""
    from nicscope.traces.bundled import bundled_traces

    if not incomplete:
        return []
    return _beginning([BUNDLED + name for name in bundled_traces()], incomplete)


def programs(incomplete: str) -> list[str]:
    """Sizes of the papers' programs."""
    from nicscope.studies.reproduce.traced.workloads import SIZES

    return _beginning(SIZES, incomplete)


def _beginning(names: Sequence[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
