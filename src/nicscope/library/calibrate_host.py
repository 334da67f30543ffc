"""``nicscope calibrate-host``: what touching and pinning memory take on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from nicscope.library.command import Bytes, Option, Text, byte_count, command
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from nicscope.reports.host import ShownHost


@command(
    "nicscope calibrate-host",
    "nicscope calibrate-host --out mine",
    words="calibrate-host",
    out="Folder for registration.toml, which register takes, and the numbers.",
)
def calibrate_host(
    repeat: list[str],
    /,
    *,
    memory: Annotated[
        Bytes,
        Option(
            "BYTES",
            "Over which each round measures; more than may be locked is not.",
            read=byte_count,
        ),
    ] = "16MiB",
    seconds: Annotated[float, Option("S", "That it takes, about.")] = 2.0,
    nic: Annotated[
        Text,
        Option(
            "NAME|FILE",
            "Costs whose part of the NIC is taken, as no NIC is asked.",
            offers="registrations",
        ),
    ] = "connectx",
) -> ShownHost:
    """Measure what touching, pinning, mapping and copying memory take on this machine.

    Pins no more than the process may lock (ulimit -l), and leaves nothing behind.  What it finds
    is for: nicscope register 1TiB --nics 8 --costs mine/registration.toml
    """
    from nicscope.config.rdma_costs import load_registration_costs
    from nicscope.reports.host import ShownHost
    from nicscope.studies.host_costs import calibrate_host as measure

    priced = load_registration_costs(nic)
    with progress("measuring", "ms") as watch:
        return ShownHost(measure(priced, memory, seconds, repeat, watch))
