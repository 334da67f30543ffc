"""Processes that split: simulated memory is copied with the rest, so nothing is to be prepared."""

from __future__ import annotations

from typing import Any

from nicscope.interfaces.verbs import libibverbs_enums as e


def fork_init() -> None:
    """Prepare for forking, which takes nothing here."""


def is_fork_initialized() -> Any:
    """Whether forking is prepared: it need not be."""
    return e.ibv_fork_status.IBV_FORK_UNNEEDED
