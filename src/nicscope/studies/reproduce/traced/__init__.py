"""Tables and figures of the papers for any traces: the same rows, each trace an application.

``<paper>.py`` says of each item what its table is made of and what the paper's text says of it;
``programs`` names, runs and finds programs; ``measuring`` reads a trace once for all tables, puts
these together and holds them against what is printed.
"""
