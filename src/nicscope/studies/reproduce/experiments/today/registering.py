"""What registering takes by calls, pages and what is registered already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.rdma_costs import load_registration_costs
from nicscope.studies.registering import Pool, register_pool

if TYPE_CHECKING:
    from nicscope.studies.reproduce.verdict import Item, Outcome

MIB = 1 << 20
HUGE = 2 << 20


def t11(outcome: Outcome, item: Item) -> None:
    """Two sizes of buffers at EFA, registered one after the other in both orders."""
    many = int(item.derived["of_each"])
    small, large = (int(float(size) * MIB) for size in item.derived["buffer_mib"])
    costs = load_registration_costs("efa-gpu")
    taken = {}
    for order, sizes in (("ascending", (small, large)), ("descending", (large, small))):
        buffers = tuple(size for size in sizes for _ in range(many))
        found = register_pool(Pool(buffers, HUGE, 1, 1, at_once=False, touched=True), costs)
        taken[order] = found.total.high
        outcome.point("total", "s", found.total.high, order=order)
    ratio = taken["descending"] / taken["ascending"]
    outcome.shape("order-matters", ratio > 2, f"{ratio:.2f} times as long; printed is 2.63")


def t12(outcome: Outcome, item: Item) -> None:
    """Tensors of a model, each registered by itself: the most that host memory's costs give."""
    many = int(item.derived["tensors"])
    each = int(item.derived["bytes"]) // many
    page = int(item.derived["page_bytes"])
    pool = Pool((each,) * many, page, 1, 1, at_once=False, touched=True)
    found = register_pool(pool, load_registration_costs("connectx"))
    outcome.point("each", "s", found.total.high)
