"""What the person who runs a program may do: raw packets and keys of the system."""

from __future__ import annotations

from pathlib import Path

STATUS = Path("/proc/self/status")
NET_RAW = 13  # the bit of CAP_NET_RAW


def may_use_raw() -> bool:
    """Whether the process has the capability; without Linux's files it has not."""
    try:
        lines = STATUS.read_text().splitlines()
    except OSError:
        return False
    told = next((line.split()[1] for line in lines if line.startswith("CapEff:")), "0")
    return bool(int(told, 16) >> NET_RAW & 1)
