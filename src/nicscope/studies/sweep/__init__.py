"""Sweeps: a trace through every design of a grid, on threads or a cluster, into one table.

``grid`` reads what is varied and makes designs and platforms of it, ``table`` counts a few designs
at once, keeps what is done and writes it all, ``sweeping`` puts them together.
"""
