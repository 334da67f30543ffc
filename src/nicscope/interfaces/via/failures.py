"""Why a descriptor ended with an error, in words: which of its segments, and where that lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.interfaces.via.names import Status
from nicscope.nic.ports.layout import FETCH, WRITE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nicscope.interfaces.via.addresses import Region
    from nicscope.interfaces.via.endpoint import Endpoint, Work
    from nicscope.interfaces.via.kernel import Kernel

OWN_WRONG = Status.VIP_STATUS_PROTECTION_ERROR
REMOTE_WRONG = Status.VIP_STATUS_RDMA_PROT_ERROR
TOO_LONG = Status.VIP_STATUS_LENGTH_ERROR


def why_of(work: Work, vi: Endpoint, wrong: Status, operation: int, kernels: list[Kernel]) -> str:
    """To put behind the status' name; nothing if tables as they are now say nothing of it."""
    found: list[str] = []
    if wrong & OWN_WRONG:
        found.extend(_of_segments(work, vi, kernels[vi.node].regions))
    if wrong & TOO_LONG:
        found.append(_of_length(work, vi, operation))
    if wrong & Status.VIP_STATUS_DESC_FLUSHED_ERROR:
        found.append(f"the VI is in {vi.state.name}")
    if wrong & REMOTE_WRONG and vi.joined is not None:
        found.extend(_of_remote(work, vi.joined, operation, kernels[vi.joined.node].regions))
    return "".join(f"; {each}" for each in found)


def _of_segments(work: Work, vi: Endpoint, regions: Mapping[int, Region]) -> Iterator[str]:
    for number, one in enumerate(work.said[0], 1):
        which = f"segment {number}, {_stretch(one.address, one.length)},"
        region = regions.get(one.handle)
        if region is None:
            yield f"{which} is of no registered memory: nothing has handle {one.handle}"
        elif not _is_in(one.address, one.length, region):
            yield f"{which} is not in its region, {_stretch(region.address, region.length)}"
        elif region.tag != vi.attributes.tag:
            yield (
                f"{which} is of a region with protection tag {region.tag}, and the VI has "
                f"{vi.attributes.tag}"
            )


def _of_length(work: Work, vi: Endpoint, operation: int) -> str:
    total, most = sum(one.length for one in work.said[0]), vi.attributes.max_transfer
    if total > most:
        return f"its segments have {total} bytes, and the VI transfers {most} at most"
    if operation in (WRITE, FETCH):
        return f"its segments have {total} bytes"
    return f"the message is longer than its receive's segments, which have {total} bytes"


def _of_remote(
    work: Work, other: Endpoint, operation: int, regions: Mapping[int, Region]
) -> Iterator[str]:
    remote = work.said[2]
    if remote is None:
        return
    total = sum(one.length for one in work.said[0])
    which = f"remote memory {_stretch(remote.address, total)}"
    region = regions.get(remote.handle)
    right = "rdma_read" if operation == FETCH else "rdma_write"
    if region is None:
        yield f"{which} is not registered on node {other.node}: nothing has handle {remote.handle}"
    elif not _is_in(remote.address, total, region):
        there = _stretch(region.address, region.length)
        yield f"{which} is not in its region on node {other.node}, {there}"
    elif not getattr(region, right):
        yield f"{which} was registered on node {other.node} without enable_{right}"
    elif not getattr(other.attributes, right):
        yield f"the VI on node {other.node} was created without enable_{right}"
    elif region.tag != other.attributes.tag:
        yield f"{which} has another protection tag than the VI on node {other.node}"


def _is_in(address: int, length: int, region: Region) -> bool:
    return region.address <= address and address + length <= region.address + region.length


def _stretch(address: int, length: int) -> str:
    """Where so many bytes lie."""
    return f"{address:#x} to {address + length:#x}"
