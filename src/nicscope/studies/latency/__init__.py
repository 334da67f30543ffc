"""User-to-user latency of messages, part by part, for every way of moving them."""
