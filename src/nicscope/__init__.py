"""A laboratory for user-level network interfaces.

A network interface is firmware running over a small memory.  nicscope writes that firmware once
and runs it over recorded traces (counts), in virtual time (latency, contention, real bytes) and,
later, live.  ``docs/architecture.md`` is the map.
"""

__version__ = "0.1.0"
