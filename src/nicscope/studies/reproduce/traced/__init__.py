"""Tables and figures of the papers for any traces: the same rows, each trace an application.

``study`` is what such a table is made of, ``<paper>.py`` says it of each item, or another file,
``applications`` finds the traces, ``measuring`` reads one, ``running`` puts the table together.
"""

# fmt: off
STUDIES = {  # paper: items
    "mini": ("figure5",),
    "utlb": (
        "figure7", "figure8", "section7_independent", "section7_per_process", "table4", "table5",
        "table7", "table8",
    ),
}
# fmt: on
# Where the study of an item stands, if not with the others of its paper.
STUDY_FILES = {
    ("utlb", "section7_independent"): "utlb_limits",
    ("utlb", "section7_per_process"): "utlb_limits",
}
