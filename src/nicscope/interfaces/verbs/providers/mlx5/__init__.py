"""Mellanox, by name."""
