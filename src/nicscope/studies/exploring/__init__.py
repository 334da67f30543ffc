"""Any design over one trace, asked again and again: what ``nicscope explore`` answers.

``state``: which design is looked at, as the query of a page's address spells it.  ``passes``: what
was counted so far, and a thread that counts the rest.  ``exploring``: the answers.
"""
