"""Paged memory of hosts: frames of real bytes, spaces, swap, pins (``docs/host-memory.md``)."""
