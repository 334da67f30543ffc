"""Shared virtual memory for SPMD programs: home-based lazy release consistency over pages.

Processes on several nodes read and write arrays of one shared address space.  Each coherence
domain (a node, whose processes share memory, or every process by itself) holds a copy of the pages
that it uses.  A page has a home, whose copy is kept up to date: what others write goes there as a
diff against a twin when their writes have to be seen elsewhere, and what they read is fetched from
there as a whole page.  Locks and barriers carry write notices, which say whose copies are out of
date.  (UTLB 6.1; GeNIMA in miNI V; Zhou, Iftode and Li, OSDI 1996, for the protocol.)
"""
