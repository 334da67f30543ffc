"""Tables and figures of the papers for any traces: the same rows, each trace an application.

``<paper>.py`` says of each item what its table is made of, or another file, and ``_statements``
what the paper's text says of it.  ``workloads`` names the papers' programs, ``programs`` runs them,
``applications`` finds traces that somebody brings; ``measuring`` reads one, ``running`` puts tables
together, ``judging`` holds them against what is printed.
"""

# fmt: off
STUDIES = {  # paper: items
    "mini": ("figure5", "figure6", "figure7", "miss_penalty_of_programs"),
    "utlb": (
        "figure7", "figure8", "section7_independent", "section7_per_process", "table3", "table4",
        "table5", "table7", "table8",
    ),
}
# fmt: on
# Where the study of an item stands, if not with the others of its paper.
STUDY_FILES = {
    ("mini", "figure6"): "mini_times",
    ("mini", "figure7"): "mini_times",
    ("mini", "miss_penalty_of_programs"): "mini_times",
    ("utlb", "section7_independent"): "utlb_footprint",
    ("utlb", "section7_per_process"): "utlb_footprint",
    ("utlb", "table3"): "utlb_footprint",
}
# Those whose programs are timed, which takes what processes do and wait for: no traces of requests.
TIMED = {("mini", "figure6"), ("mini", "figure7"), ("mini", "miss_penalty_of_programs")}
