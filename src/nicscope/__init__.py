"""A laboratory for user-level network interfaces.

A network interface is firmware running over a small memory.  nicscope writes that firmware once
and runs it over recorded traces (counts), in virtual time (latency, contention, real bytes) and,
later, live.  ``docs/architecture.md`` is the map.

``import nicscope as ns``: each command is a function here (``ns.replay``, ``ns.curve``, ...).  What
is named here is imported when it is first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from nicscope.version import __version__

if TYPE_CHECKING:
    from nicscope.config.design import Design, Transport, design_names, load_design
    from nicscope.config.platform import Platform, load_platform, platform_names
    from nicscope.drivers.simulate.ports.build import Faults
    from nicscope.errors import (
        DesignError,
        NicscopeError,
        OutputError,
        PlatformError,
        RecordError,
        RoomError,
        SimulationError,
        StuckError,
        StudyError,
        TraceError,
        WaitTimeoutError,
    )
    from nicscope.interfaces.options import Cluster
    from nicscope.library import rdma
    from nicscope.library.applications import record_sockets, run_app
    from nicscope.library.measurements import (
        flow,
        latency,
        run_collective,
        run_kernel,
        verbs_bandwidth,
        verbs_latency,
    )
    from nicscope.library.reproduce import reproduce
    from nicscope.library.simulate import run_verbs, simulate
    from nicscope.library.traces import open_trace
    from nicscope.library.translation import curve, replay, size, sweep
    from nicscope.reports.result import Report
    from nicscope.traces.reader import Trace


__all__ = [
    "Cluster",
    "Design",
    "DesignError",
    "Faults",
    "NicscopeError",
    "OutputError",
    "Platform",
    "PlatformError",
    "RecordError",
    "Report",
    "RoomError",
    "SimulationError",
    "StuckError",
    "StudyError",
    "Trace",
    "TraceError",
    "Transport",
    "WaitTimeoutError",
    "__version__",
    "curve",
    "design_names",
    "flow",
    "latency",
    "load_design",
    "load_platform",
    "open_trace",
    "platform_names",
    "rdma",
    "record_sockets",
    "replay",
    "reproduce",
    "run_app",
    "run_collective",
    "run_kernel",
    "run_verbs",
    "simulate",
    "size",
    "sweep",
    "verbs_bandwidth",
    "verbs_latency",
]

# Where what is public lies; the imports above say the same to editors and type checkers.
_HOMES = {
    "nicscope.config.design": ("Design", "Transport", "design_names", "load_design"),
    "nicscope.config.platform": ("Platform", "load_platform", "platform_names"),
    "nicscope.errors": (
        *("DesignError", "NicscopeError", "OutputError", "PlatformError", "RecordError"),
        *("RoomError", "SimulationError", "StuckError", "StudyError", "TraceError"),
        "WaitTimeoutError",
    ),
    "nicscope.library.applications": ("record_sockets", "run_app"),
    "nicscope.library.measurements": (
        *("flow", "latency", "run_collective", "run_kernel", "verbs_bandwidth"),
        "verbs_latency",
    ),
    "nicscope.library.reproduce": ("reproduce",),
    "nicscope.library.simulate": ("run_verbs", "simulate"),
    "nicscope.library.translation": ("curve", "replay", "size", "sweep"),
    "nicscope.drivers.simulate.ports.build": ("Faults",),
    "nicscope.interfaces.options": ("Cluster",),
    "nicscope.reports.result": ("Report",),
    "nicscope.library.traces": ("open_trace",),
    "nicscope.traces.reader": ("Trace",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = {"rdma": "nicscope.library.rdma"}  # of functions, such as ``ns.rdma.register``


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        found = import_module(_MODULES[name])
        for each in vars(found).values():
            _document(each)
        globals()[name] = found
        return found
    if name not in _HOME:
        raise AttributeError(
            f"module 'nicscope' has no attribute {name!r}", name=name, obj=sys.modules[__name__]
        )
    found = getattr(import_module(_HOME[name]), name)
    _document(found)
    globals()[name] = found
    return found


def _document(found: Any) -> None:
    """Give a command's function the documentation of its parameters."""
    if command := getattr(found, "command", None):
        found.__doc__ = command.documentation()


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_MODULES})
