"""What binds transfers of large blocks: posting descriptors, the link, the window of reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.rdma_costs import load_nic_costs
from nicscope.studies.descriptors import GB, Moved, Through, bounds_of

if TYPE_CHECKING:
    from nicscope.config.rdma_costs import NicCosts
    from nicscope.studies.reproduce.verdict import Item, Outcome

KIB = 1024
SIZE = 16 * 1000  # bytes of T13's descriptors at 128k tokens
BLOCKS = 1000
BITS = 8


def _gbytes_per_s(moved: Moved, through: Through, nic: NicCosts) -> float:
    """Between both ends of the costs, as the longest bound of each allows."""
    bounds = bounds_of(moved, through, nic)
    ends = [moved.byte_count / max(span[end] for span in bounds.values()) / GB for end in (0, 1)]
    return sum(ends) / len(ends)


def _moved(descriptors: int, each: int, nic: NicCosts, *, reads: bool = False) -> Moved:
    whole = descriptors * each
    packets = descriptors * -(-each // nic.count("packet_bytes", 0))
    pcie = nic.counts.get("pcie_bytes", (each, each))[0]
    return Moved(descriptors, whole, packets, descriptors * -(-each // pcie), whole * reads)


def t13(outcome: Outcome, item: Item) -> None:
    """An issue of vLLM: the same prompt in 4,563 descriptors and in 70."""
    many, few = item.printed["descriptors"]
    known = float(item.printed["times"][1])
    gbytes_per_s = 9
    each_us = SIZE / gbytes_per_s / 1000
    time = known + (many - few) * each_us / 1000
    outcome.point("us_per_descriptor", "us", each_us)
    outcome.point("time", "ms", time, descriptors=many)
    outcome.shape("fewer-are-faster", known < time, f"{known} against {time:.1f} ms")


def t14(outcome: Outcome, item: Item) -> None:
    """An issue of vLLM: the share of posting, over two transports of UCX."""
    derived, printed = item.derived, item.printed
    byte_count = float(printed["gbytes"]) * GB
    nic = load_nic_costs("connectx-7")
    rates = {
        "cuda_ipc": float(derived["cuda_ipc_gbytes_per_s"]),
        "rc": nic.rate("link", 0) * int(derived["rc_rails"]),
    }
    shares = {}
    for name, gbytes_per_s in rates.items():
        both = []
        for many in printed["descriptors"]:
            posting = many * float(derived[f"{name}_post_us"]) / 1e6
            both.append(100 * posting / (posting + byte_count / gbytes_per_s / GB))
        shares[name] = both
    outcome.shape(
        "order",
        min(shares["cuda_ipc"]) > max(50, *shares["rc"]),
        f"cuda_ipc {shares['cuda_ipc'][0]:.0f} to {shares['cuda_ipc'][1]:.0f} % "
        f"({printed['posting_percent_cuda_ipc']} printed), rc_x {shares['rc'][0]:.0f} to "
        f"{shares['rc'][1]:.0f} % ({printed['posting_percent_rc']})",
    )


def t15(outcome: Outcome, item: Item) -> None:
    """pegaflow: 4 MB over one queue pair and over two, of which posting takes next to nothing."""
    nic = load_nic_costs("connectx-7")
    for kind in ("read", "write"):
        for place, _ in enumerate(item.printed[f"{kind}_gbits_per_s"]):
            moved = _moved(BLOCKS, 4 << 20, nic, reads=kind == "read")
            rate = _gbytes_per_s(moved, Through("mooncake", 1, 1, place + 1), nic)
            outcome.point(kind, "Gb/s", rate * BITS, queue_pairs=place + 1)


def t17(outcome: Outcome, item: Item) -> None:
    """Mooncake over EFA: 16 threads that move blocks of several sizes."""
    nic = load_nic_costs("efa-p5en")
    for kib in item.printed["block_kib"]:
        rate = _gbytes_per_s(_moved(BLOCKS, kib * KIB, nic), Through("mooncake", 16, 1, 1), nic)
        outcome.point("rate", "GB/s", rate, block_kib=kib)
