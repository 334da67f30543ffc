"""Hits and misses of translation caches, under the names that tools for NICs give them.

Sources: FreeBSD, sys/dev/mlx5/diagnostics.h; names that Neo-Host prints; exporters of CR-space.
"""

from __future__ import annotations

import re

# By what is spelt alike in all of them: the cache, and whether the counter is of hits.
_NAMES = (
    (re.compile(r"(hits|misses)"), "the cache"),
    (re.compile(r"level ?0 mtt cache (hit|miss)"), "MTT, level 0"),
    (re.compile(r"(?:mlx5_tpt_)?l0_mtt_(hit|miss)"), "MTT, level 0"),
)
# What nobody can fit from requests alone, and why.
_OTHERS = (
    (re.compile(r"level ?1 mtt cache (?:hit|miss)"), "level 1 sees what level 0 misses alone"),
    (re.compile(r"(?:mlx5_tpt_)?l1_mtt_(?:hit|miss)"), "level 1 sees what level 0 misses alone"),
    (
        re.compile(r"level ?[01] mpt cache (?:hit|miss)"),
        "it counts regions, of which requests say nothing",
    ),
    (
        re.compile(r"(?:mlx5_tpt_)?l[01]_mpt_(?:hit|miss)"),
        "it counts regions, of which requests say nothing",
    ),
    (
        re.compile(r"icm cache miss|mlx5_pxt_icm_cache_miss"),
        "it counts all that comes from the host, not translations alone",
    ),
)


def known_counter(name: str) -> tuple[str, bool] | None:
    """The cache that a counter is of, and whether it counts hits; None if it is none of a cache."""
    spelt = " ".join(name.strip().lower().split())
    for pattern, cache in _NAMES:
        if found := pattern.fullmatch(spelt):
            return cache, found[1].startswith("hit")
    return None


def why_not(name: str) -> str | None:
    """Why a counter that is known tells nothing of a cache's size; None if it is not known."""
    spelt = " ".join(name.strip().lower().split())
    return next((why for pattern, why in _OTHERS if pattern.fullmatch(spelt)), None)
