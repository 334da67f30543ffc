"""Tables and figures of the papers for any traces: the same rows, each trace an application.

``study`` is what such a table is made of, ``<paper>/<id>.py`` says it of one item,
``applications`` finds the traces, ``measuring`` reads one, ``running`` puts the table together.
"""
