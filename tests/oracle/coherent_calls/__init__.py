"""A host, its caches, its bus and its interface where each call is over before the next begins.

The slow twin of the bus as events, for one CPU and one interface of which one asks at a time: a
call takes the present in ps and returns when it is over.  It works on the arrays that the bus has,
so that every byte and state may be compared; caches are searched by ``memory.coherence.layout``.
"""
