"""U-Net/MM Table 1: what its rows add up to, as the pricing of misses and hits adds them."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from nicscope.config.design import load_design
from nicscope.config.platform import load_platform
from nicscope.studies.pricing import price
from nicscope.studies.reproduce.experiments.utlb import cost_at

if TYPE_CHECKING:
    from nicscope.config.platform import Platform
    from nicscope.studies.reproduce.verdict import Item, Outcome

DESIGNS = {"pca200-linux": "unet-mm-pca200", "dc21140-nt": "unet-mm-dc21140"}


def table1(outcome: Outcome, item: Item) -> None:
    """U-Net/MM Table 1: what its rows add up to, as the pricing of misses and hits adds them.

    Price one miss and one hit on both machines; replace the pin for other kinds of pages.
    """
    pca200, nt = load_platform("pca200-linux"), load_platform("dc21140-nt")
    plain = one_lookup(pca200, miss=True, unpin=True)
    bare = one_lookup(pca200, miss=True)
    copied = _instead_of_pin(pca200, plain, "kernel_pin_shared")
    zeroed = _instead_of_pin(pca200, plain, "zero_map_in")
    ahead = one_lookup(nt, miss=True, unpin=True, receive=True)
    nt_plain = one_lookup(nt, miss=True, unpin=True)
    outcome.point("plain_miss_with_unpin", "us", plain, path="pca200")
    outcome.point("plain_miss_with_unpin", "us", nt_plain, path="nt-send")
    outcome.point("plain_miss_with_unpin", "us", ahead, path="nt-ahead")
    outcome.point("plain_miss_without_unpin", "us", bare, path="pca200")
    outcome.point("copy_on_write_miss", "us", copied, path="pca200")
    outcome.point("zero_map_in_miss", "us", zeroed, path="pca200")
    outcome.point("send_with_hit", "us", _send_with_hit(pca200), path="pca200")
    outcome.point("send_with_hit", "us", _send_with_hit(nt), path="nt-send")
    outcome.point("plain_miss_in_the_text", "us", plain, path="pca200")

    text = item.printed["text"]
    hits = [one_lookup(pca200), one_lookup(pca200, receive=True)]
    low, high = text["hit_adds_us"]
    outcome.shape(
        "hit-adds-1-to-2",
        [min(hits), max(hits)] == [low, high],
        f"{hits[0]} us on a send, {hits[1]} us on a receive",
    )
    low, high = text["miss_delays_us"]
    sums = sorted([bare, plain, zeroed, copied])
    outcome.shape(
        "text-range-is-too-high",
        sums[0] < low and sums[-1] < high,
        f"sums of the rows: {', '.join(str(one) for one in sums)} us",
    )
    outcome.shape(
        "copying-does-not-double",
        all(one / plain < Decimal("1.75") for one in (copied, zeroed)),
        f"copy {copied / plain:.2f} times, zeroing {zeroed / plain:.2f} times the plain miss",
    )
    disk = {
        "PCA-200": _instead_of_pin(pca200, plain, "page_fault"),
        "NT": _instead_of_pin(nt, nt_plain, "page_fault"),
    }
    outcome.shape(
        "disk-dominates",
        disk["PCA-200"] > 100 * plain and disk["NT"] > 100 * nt_plain,
        ", ".join(f"{name} {cost / 1000:.2f} ms" for name, cost in disk.items()),
    )


def one_lookup(
    platform: Platform, *, miss: bool = False, unpin: bool = False, receive: bool = False
) -> Decimal:
    """Price (us) of one lookup on the path named; a miss pins a page that is present."""
    counts = {
        "lookups": 1,
        "lookups_send": int(not receive),
        "lookups_receive": int(receive),
        "ni_misses": int(miss),
        "ni_misses_send": int(miss and not receive),
        "ni_misses_receive": int(miss and receive),
        "interrupts": int(miss),
        "unpins": int(unpin),
    }
    cost = price(counts, load_design(DESIGNS[platform.name]), platform)
    per_lookup = cost.per_lookup_us()
    if per_lookup is None or cost.is_lower_bound:
        raise RuntimeError(f"a lookup on {platform.name} is not fully priced: {cost.unpriced}")
    return per_lookup[0]


def _instead_of_pin(platform: Platform, miss: Decimal, step: str) -> Decimal:
    """``miss`` with ``step`` in place of pinning a page that is present."""
    return miss - cost_at(platform, "kernel_pin") + cost_at(platform, step)


def _send_with_hit(platform: Platform) -> Decimal:
    """A whole send that hits: trap, where there is one, queue handling and translation."""
    trap = Decimal(0) if "trap" in platform.not_applicable else cost_at(platform, "trap")
    return trap + cost_at(platform, "send_queue") + one_lookup(platform)
