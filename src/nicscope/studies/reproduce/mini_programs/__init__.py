"""MiNI's Figures 5, 6 and 7 from the eight programs, run here: what misses, and how long it takes.

``traffic`` is what they ask of miNI's NICs, ``runs`` what a timed run comes to; ``misses``,
``times`` and ``penalties`` hold what the paper states of them.
"""
