"""Measuring this machine's memory: what ``nicscope calibrate-host`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import StudyError, in_one_line
from nicscope.library.command import byte_count, command_line, number
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from nicscope.reports.host import ShownHost


@in_one_line
def calibrate_host(
    *, memory: str | int = "16MiB", seconds: float = 2.0, nic: str = "connectx"
) -> ShownHost:
    """Measure what touching, pinning, mapping and copying memory take here, for ``register``.

    Args:
        memory: bytes over which each round measures; what the process may not lock is not pinned.
        seconds: about which it takes.
        nic: costs of registration whose part of the NIC is taken, by name or a TOML file.

    Errors: ``NicscopeError`` for bounds that cannot be.

    """
    from nicscope.config.rdma_costs import load_registration_costs
    from nicscope.reports.host import ShownHost
    from nicscope.studies.host_costs import calibrate_host as measure

    size, spent = byte_count("--memory", memory), number("--seconds", seconds)
    if size is None or spent is None:
        raise StudyError("--memory and --seconds: give both a value")
    options = {"--memory": memory, "--seconds": seconds, "--nic": nic}
    command = command_line(["calibrate-host"], options)
    priced = load_registration_costs(nic)
    with progress("measuring", "ms") as watch:
        return ShownHost(measure(priced, size, spent, command, watch))
