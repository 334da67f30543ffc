"""Many caches from one pass over a NIC's lookups.

``curve``: fully associative LRU caches of every capacity.  ``grid``: set-associative LRU caches
of many shapes, with the kinds of their misses.  ``sample``: the curve, estimated from some of
the keys, with an interval that holds the exact value.

All are fed chunks of keys as dense numbers (``nicscope.memory.numbering``), one NIC at a time;
how the lookups are cut into chunks changes no result.  Line sizes are not known here: feed the
numbers of lines, and a line's number of entries is the caller's business.
"""
