"""Tables and figures of the papers for any traces: the same rows, each trace an application.

``study`` is what such a table is made of, ``<paper>.py`` says it of each item,
``applications`` finds the traces, ``measuring`` reads one, ``running`` puts the table together.
"""

STUDIES = {  # paper: items
    "mini": ("figure5",),
    "utlb": ("figure7", "figure8", "table4", "table5", "table7", "table8"),
}
