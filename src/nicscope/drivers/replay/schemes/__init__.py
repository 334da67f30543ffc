"""One file per translation scheme: how its firmware and host answer a piece of the requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.config.design import Scheme
from nicscope.nic.layout import SEARCHED_WAYS

if TYPE_CHECKING:
    from nicscope.config.design import Design


def takes_turns(design: Design) -> bool:
    """Whether a host that unpins for a limit, or a NIC that fetches ahead, makes both take turns.

    Then one pass goes from request to request; nothing else takes an entry from the NIC unasked.
    """
    limits = (design.pin_limit, design.most_valid)
    return limits != (None, None) or (design.prefetch or 1) > 1


def is_lone_set(design: Design) -> bool:
    """Whether the cache is one set, too wide to search, that holds what was looked up last."""
    lines = (design.entries or 0) // (design.line or 1)
    return not takes_turns(design) and SEARCHED_WAYS < (design.ways or 1) == lines


def passes_of(design: Design) -> tuple[Any, ...]:
    """The kernels that replay a piece under ``design``, one pass after the other.

    Only those are imported.
    """
    if design.scheme in (Scheme.PINNED, Scheme.STATIC):
        from nicscope.drivers.replay.schemes import tables

        by_copy = design.scheme is Scheme.PINNED
        return (tables.replay_pinned if by_copy else tables.replay_static,)
    if design.scheme is Scheme.UTLB_PROCESS:
        from nicscope.drivers.replay.schemes.utlb import replay_utlb_process

        return (replay_utlb_process,)
    from nicscope.drivers.replay.schemes.renewing import note_lookups

    return (*_in_turns(design), note_lookups) if takes_turns(design) else _apart(design)


def _in_turns(design: Design) -> tuple[Any, ...]:
    if design.scheme is Scheme.INTERRUPT:
        from nicscope.drivers.replay.schemes.interrupt import replay_interrupt

        return (replay_interrupt,)
    if design.scheme is Scheme.UNET_MM:
        from nicscope.drivers.replay.schemes.unet_mm import replay_unet_mm

        return (replay_unet_mm,)
    from nicscope.drivers.replay.schemes import utlb

    by_page = design.scheme is Scheme.UTLB
    return (utlb.replay_utlb if by_page else utlb.replay_utlb_shared,)


def _apart(design: Design) -> tuple[Any, ...]:
    from nicscope.drivers.replay.schemes import renewing
    from nicscope.drivers.replay.schemes.renewing import note_missed

    renew = renewing.renew_lone_set if is_lone_set(design) else renewing.renew_lookups
    if design.scheme is Scheme.INTERRUPT:
        from nicscope.drivers.replay.schemes.interrupt import interrupt_missed

        return renew, interrupt_missed, note_missed
    if design.scheme is Scheme.UNET_MM:
        from nicscope.drivers.replay.schemes.unet_mm import ask_victims

        return renew, ask_victims, note_missed
    if design.scheme is Scheme.HANDLE:
        from nicscope.drivers.replay.schemes.handle import bring_missed

        return renew, bring_missed, note_missed
    from nicscope.drivers.replay.schemes.utlb import (
        admit_first,
        admit_new,
        fetch_missed,
        find_indices,
    )

    if not is_lone_set(design):
        renew = renewing.renew_listing_misses
    if design.scheme is Scheme.UTLB:
        return renew, fetch_missed, note_missed, admit_first
    return admit_new, find_indices, renew, fetch_missed, note_missed
