"""One file per translation scheme: how its firmware and host answer a piece of the requests."""

from __future__ import annotations

from typing import Any

from nicscope.config.design import Design, Scheme
from nicscope.nic.layout import SEARCHED_WAYS


def interleaves_host_and_nic(design: Design) -> bool:
    """Whether host and NIC alternate: what either does depends on what the other has just done.

    Then one pass goes from request to request.  So it is where the NIC fetches ahead, or a limit
    has the host unpin and misses have it pin, or it pins ahead under a limit.
    """
    if design.most_valid is not None or (design.prefetch or 1) > 1:
        return True
    if design.pin_limit is None:
        return False
    return design.scheme is Scheme.INTERRUPT or (design.prepin or 1) > 1


def is_single_set(design: Design) -> bool:
    """Whether the cache is one set, too wide to search, that holds what was looked up last."""
    lines = (design.entries or 0) // (design.line or 1)
    return not interleaves_host_and_nic(design) and SEARCHED_WAYS < (design.ways or 1) == lines


def entries_held(design: Design) -> int:
    """How many entries are kept by when they were used, or came: of one wide set, or victims."""
    if design.scheme is Scheme.UNET_MM and not interleaves_host_and_nic(design):
        return design.victim_entries or 0
    return (design.ways or 1) if is_single_set(design) else 0


def unpins(design: Design) -> bool:
    """Whether a user library under a pin limit of its own has entries leave the NIC."""
    return design.pin_limit is not None and not interleaves_host_and_nic(design)


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
    from nicscope.drivers.replay.schemes.cache_pass import note_lookups

    if interleaves_host_and_nic(design):
        return *_interleaved(design), note_lookups
    return (*_within_limit(design), note_lookups) if unpins(design) else _in_passes(design)


def _interleaved(design: Design) -> tuple[Any, ...]:
    if design.scheme is Scheme.INTERRUPT:
        from nicscope.drivers.replay.schemes.interrupt import replay_interrupt

        return (replay_interrupt,)
    if design.scheme is Scheme.UNET_MM:
        from nicscope.drivers.replay.schemes.unet_mm import replay_unet_mm

        return (replay_unet_mm,)
    from nicscope.drivers.replay.schemes import utlb

    by_page = design.scheme is Scheme.UTLB
    return (utlb.replay_utlb if by_page else utlb.replay_utlb_shared,)


def _within_limit(design: Design) -> tuple[Any, ...]:
    from nicscope.drivers.replay.schemes import utlb

    if is_single_set(design):
        return utlb.admit_within_limit, utlb.look_up_single_set_unpinning
    by_page = design.scheme is Scheme.UTLB
    return (
        utlb.admit_within_limit,
        utlb.look_up_unpinning if by_page else utlb.look_up_unpinning_shared,
    )


def _in_passes(design: Design) -> tuple[Any, ...]:
    from nicscope.drivers.replay.schemes import cache_pass
    from nicscope.drivers.replay.schemes.cache_pass import note_missed

    renew = cache_pass.look_up_single_set if is_single_set(design) else cache_pass.look_up_all
    if design.scheme is Scheme.INTERRUPT:
        from nicscope.drivers.replay.schemes.interrupt import interrupt_missed

        return renew, interrupt_missed, note_missed
    if design.scheme is Scheme.UNET_MM:
        from nicscope.drivers.replay.schemes.interrupt import interrupt_missed
        from nicscope.drivers.replay.schemes.unet_mm import look_up_victims

        asked = (look_up_victims,) if design.victim_entries else ()
        return renew, *asked, interrupt_missed, note_missed
    if design.scheme is Scheme.HANDLE:
        from nicscope.drivers.replay.schemes.handle import bring_missed

        return renew, bring_missed, note_missed
    from nicscope.drivers.replay.schemes.utlb import (
        admit_first,
        admit_new,
        fetch_missed,
        find_indices,
    )

    if not is_single_set(design):
        renew = cache_pass.look_up_listing_misses
    if design.scheme is Scheme.UTLB:
        return renew, fetch_missed, note_missed, admit_first
    return admit_new, find_indices, renew, fetch_missed, note_missed
