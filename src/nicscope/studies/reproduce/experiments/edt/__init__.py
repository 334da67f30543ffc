"""Eager Data Transfer, from the coherent machine and VIA over it."""
