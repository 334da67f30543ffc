"""Hosts with caches and a snooping bus in virtual time: one transaction is one event."""
