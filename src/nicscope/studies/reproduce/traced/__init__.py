"""Tables and figures of the papers for any traces: the same rows, each trace an application.

``<paper>.py`` says of each item what its table is made of, or another file, and ``_statements``
what the paper's text says of it.  ``workloads`` names the papers' programs, ``programs`` runs them,
``applications`` finds traces that somebody brings; ``measuring`` reads one, ``running`` puts tables
together, ``judging`` holds them against what is printed.
"""
