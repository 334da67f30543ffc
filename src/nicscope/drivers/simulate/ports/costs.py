"""What serving ports costs under a scheme, and how long a task of the firmware takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.config.design import Design, Scheme, ServedBy
from nicscope.errors import PlatformError
from nicscope.kernel.decorators import step
from nicscope.nic.layout import SEARCHED_WAYS
from nicscope.nic.ports.calls import plan_completion, plan_placing, plan_service

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nicscope.config.platform import ProgramCosts


_LOOKUPS = {  # of a send, of an arrival, of a buffer translated ahead
    Scheme.PINNED: (None, None, None),
    Scheme.STATIC: ("ni_table_read",) * 3,
    Scheme.UTLB_PROCESS: ("ni_table_read",) * 3,
    Scheme.UNET_MM: ("ni_hit_send", "ni_hit_receive", "ni_hit_pretranslate"),
}
_CHECKS = {
    Scheme.UTLB: "user_check",
    Scheme.UTLB_SHARED: "user_tree",
    Scheme.UTLB_PROCESS: "user_tree",
}
_SAME = {  # the driver's name: the platform's
    "post": "post",
    "trap": "trap",
    "system_call": "system_call",
    "poll": "poll",
    "wake": "wake_up",
    "signal": "notify",
    "serve_request": "send_queue",
    "receive_message": "receive_queue",
    "handshake": "ni_handshake",
    "interrupt": "interrupt",
    "interrupt_entry": "interrupt_entry",
    "pin_send": "kernel_pin",
    "pin_receive": "kernel_pin_receive",
    "pin_shared": "kernel_pin_shared",
    "zero": "zero_map_in",
    "unpin": "kernel_unpin",
    "page_in": "page_fault",
    "page_out": "page_out",
    "thread_delay": "thread_delay",
    "copy_start": "copy_start",
    "copy_per_byte": "copy_per_byte",
}


class ServiceCosts(NamedTuple):
    """Of one node, in ps."""

    steps: dict[str, int]  # every name of SERVICE_COSTS
    user_pin: NDArray[np.int64]  # shape (pages + 1,): a call that pins so many
    user_unpin: NDArray[np.int64]


def service_costs(costs: ProgramCosts, design: Design) -> ServiceCosts:
    """``costs``, which are of the platform and the scheme of ``design``, as the driver has them.

    Errors: ``PlatformError`` if sets are searched and what a way takes is not stated.
    """
    scheme = design.scheme
    steps = {name: costs.steps[theirs] for name, theirs in _SAME.items()}
    names = _LOOKUPS.get(scheme, ("ni_check",) * 3)
    for name, theirs in zip(("lookup_send", "lookup_receive", "lookup_free"), names, strict=True):
        steps[name] = 0 if theirs is None else costs.steps[theirs]
    # A buffer of a free queue was translated ahead; U-Net/MM looks again when it is filled.
    steps["lookup_buffer"] = costs.steps["ni_hit_receive"] if scheme is Scheme.UNET_MM else 0
    steps["check"] = costs.steps[_CHECKS[scheme]] if scheme in _CHECKS else 0
    steps["table_dma"] = _at(costs.tables["ni_dma"], design.prefetch or 1)
    check_searched(design, costs.unstated)
    steps["further_way"] = costs.steps["ni_further_way"] if _is_searched(design) else 0
    steps["lookup_handle"] = 0
    steps["fetch"] = _at(costs.tables["ni_miss"], design.prefetch or 1)
    if scheme is Scheme.RNIC:
        steps["fetch"] = steps["table_dma"] = costs.steps["icm_fetch"]
    steps["thread_work"] = steps["pin_send"]
    if costs.served_by == ServedBy.KERNEL:
        steps["thread_work"] = 0  # a fault in a trap ends with the page in place
        steps["handshake"] = steps["interrupt"] = 0  # the kernel translates itself: it asks nobody
        # A page that was never touched is pinned as one that is there, which zeroes it (5.2.1).
        steps["zero"] = steps["zero"] or steps["pin_receive"]
    if scheme is Scheme.INTERRUPT:
        # UTLB 6.2, as replay prices it: an interrupt and a pin, on either path.
        steps["handshake"] = 0
        steps["pin_receive"] = steps["pin_send"]
    if scheme is Scheme.HANDLE:
        # The delay runs from the interrupt until the thread is there, so it holds the interrupt.
        steps["interrupt"] = 0
        steps["lookup_handle"] = costs.steps["ni_check"]
        steps["thread_delay"] = costs.steps["miss_delay"]
        steps["thread_work"] = costs.steps["miss_processing"]  # and what it pins, page by page
    return ServiceCosts(steps, costs.tables["user_pin"], costs.tables["user_unpin"])


def check_searched(design: Design, unstated: Sequence[str]) -> None:
    """Return unless sets of ``design`` are searched way by way, and nobody says what a way takes.

    ``unstated``: costs that the platform does not state.  Errors: ``PlatformError``.
    """
    if _is_searched(design) and "ni_further_way" in unstated:
        raise PlatformError(
            f"the platform states no ni_further_way, and sets of {design.ways} ways are searched "
            "way by way: state it in a file of your own, or choose another platform or ways=1"
        )


def _is_searched(design: Design) -> bool:
    if design.scheme is Scheme.RNIC:
        return False  # nobody tells how, nor what it takes: it is part of a check
    return 1 < (design.ways or 1) <= SEARCHED_WAYS


def _at(table: NDArray[np.int64], size: int) -> int:
    last = len(table) - 1
    if size <= last:
        return int(table[size])
    return int(table[last] + (size - last) * (table[last] - table[last - 1]))


@step
def _price(machine, n):
    """What the plan of node ``n`` costs; what of that is a lookup is noted for the observer."""
    plan = machine.ports.plans[n]
    costs = machine.ports.costs[n]
    ways = plan.further_way * costs.further_way
    handles = plan.lookup_handle * costs.lookup_handle
    lookups = plan.lookup_send * costs.lookup_send + plan.lookup_receive * costs.lookup_receive
    looking = lookups
    if plan.lookup_send + plan.lookup_receive > 0:
        looking += ways
    if plan.lookup_receive > 0:
        looking += handles
    machine.ports.nodes[n].looking = looking
    others = plan.lookup_buffer * costs.lookup_buffer + plan.lookup_free * costs.lookup_free
    return plan.serve_request * costs.serve_request + handles + lookups + others + ways


@step
def service_time(machine, n, source):
    """How long SERVE takes for ``source``, misses aside."""
    plan_service(machine, n, source)
    return machine.costs[n].firmware_start + _price(machine, n)


@step
def placing_time(machine, n):
    """How long it takes to find where the last packet's payload goes."""
    if machine.ports.rules[0].serves == 0:
        return np.int64(0)
    plan_placing(machine, n)
    return _price(machine, n)


@step
def completion_time(machine, n):
    """How long it takes to hand over what the packet that is to be completed completes."""
    plan_completion(machine, n)
    return machine.ports.plans[n].receive_message * machine.ports.costs[n].receive_message
