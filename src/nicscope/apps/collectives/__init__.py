"""Collective operations as programs on every interface, in virtual time and with real bytes.

A ``Wire`` (``mailbox``) says what a process needs of an interface: short notes to its peers, and
bytes put into an array that a peer has offered.  On that ``operations`` has messages of arrays, and
each algorithm once; ``running`` runs a program in one process of each node.
"""
