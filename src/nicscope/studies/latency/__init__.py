"""User-to-user latency of messages by component, for every way into the NIC."""
