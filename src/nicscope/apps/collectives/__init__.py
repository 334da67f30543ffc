"""Collective operations as programs on every interface, in virtual time and with real bytes.

``wire`` says what a process needs of an interface: short notes to its peers, and bytes put into an
array that a peer has offered.  On that ``messages`` sends and receives arrays, and the algorithms
stand once: ``broadcast``, ``all_reduce``, ``all_to_all``, ``barrier``, ``locks``.
"""
