"""``nicscope size``: the best design of each family within a memory budget.

``question``: what is asked.  ``family``: the schemes, and the catalog's design of each to start
from.  ``survey``: what one pass over the trace tells of every cache.  ``shapes``: the designs of
a family that may be best.  ``search``: replays them.  ``merit``: which of two is better.
``answer``: what is told of a family.  ``page_sizes``: the same trace in larger pages.
``sizings``: all of that for some traces.
"""
