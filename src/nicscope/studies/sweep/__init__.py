"""Sweeps: a trace through every design of a grid, on threads or a cluster, into one table.

``axis`` reads what is varied, ``grid`` makes designs and platforms of it, ``tally`` counts a few
designs at once, ``local`` and ``cluster`` have many counted, ``journal`` keeps what is done,
``table`` writes it all; ``sweeping`` puts them together.
"""
