"""One file per translation scheme: how its firmware and host answer a piece of the requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.config.scheme import Scheme

if TYPE_CHECKING:
    from nicscope.config.design import Design


def passes_of(design: Design) -> tuple[Any, ...]:
    """The kernels that replay a piece under ``design``, one pass after the other.

    Only those are imported.  Under some schemes a host that unpins for a limit, or a NIC that
    fetches ahead, has to take turns with the other side, request by request: then that is one pass.
    """
    limits = (design.pin_limit, design.most_valid)
    takes_turns = limits != (None, None) or (design.prefetch or 1) > 1
    if design.scheme in (Scheme.PINNED, Scheme.STATIC):
        from nicscope.drivers.replay.schemes import tables

        by_copy = design.scheme is Scheme.PINNED
        return (tables.replay_pinned if by_copy else tables.replay_static,)
    if design.scheme is Scheme.UTLB_PROCESS:
        from nicscope.drivers.replay.schemes.utlb import replay_utlb_process

        return (replay_utlb_process,)
    from nicscope.drivers.replay.schemes.noting import note_lookups

    return (*(_in_turns(design) if takes_turns else _apart(design)), note_lookups)


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
    from nicscope.drivers.replay.schemes.renewing import renew_lookups

    if design.scheme is Scheme.INTERRUPT:
        from nicscope.drivers.replay.schemes.interrupt import interrupt_missed

        return renew_lookups, interrupt_missed
    if design.scheme is Scheme.UNET_MM:
        from nicscope.drivers.replay.schemes.unet_mm import ask_victims

        return renew_lookups, ask_victims
    if design.scheme is Scheme.HANDLE:
        from nicscope.drivers.replay.schemes.handle import bring_missed

        return renew_lookups, bring_missed
    from nicscope.drivers.replay.schemes.utlb import admit_new, fetch_missed, find_indices

    if design.scheme is Scheme.UTLB:
        return admit_new, renew_lookups, fetch_missed
    return admit_new, find_indices, renew_lookups, fetch_missed
