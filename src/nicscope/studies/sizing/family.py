"""The families of designs: the schemes, each with the catalog's design to start from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.design import design_names, load_design
from nicscope.config.platform import load_platform
from nicscope.config.scheme import Scheme
from nicscope.studies.replaying import Subject

if TYPE_CHECKING:
    from nicscope.config.design import Design
    from nicscope.config.platform import Platform

# Where the catalog has several designs of a scheme and none is of the platform asked for: the one
# whose translations are on a NIC, and the one that has a platform.
_FIRST = {Scheme.UNET_MM: "unet-mm-pca200", Scheme.STATIC: "vmmc-static"}


def families(platform: Platform | None) -> list[Subject]:
    """A design of each scheme, in the order of schemes, and what prices it.

    That is ``platform``; without one, each design's own, as in ``nicscope replay``.
    """
    designs = [load_design(name) for name in design_names()]
    chosen = []
    for scheme in Scheme:
        own = [design for design in designs if design.scheme is scheme]
        design = min(own, key=lambda design: _distance(design, platform))
        prices = platform
        if prices is None and design.platform is not None:
            prices = load_platform(design.platform)
        chosen.append(Subject(design, prices))
    return chosen


def _distance(design: Design, platform: Platform | None) -> int:
    if platform is not None and design.platform == platform.name:
        return 0
    return 1 if design.name == _FIRST.get(design.scheme) else 2
