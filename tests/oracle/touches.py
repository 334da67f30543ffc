"""Traces of few requests, written by hand, and what the oracle counts of them."""

from oracle.replay import replay

PAGE = 4096


def touch(page, pages=1, pid=1, node=0, op="send"):
    """A request for whole pages."""
    return (0, node, pid, op, page * PAGE, pages * PAGE)


def counted(rows, **design):
    """The total counts that are not zero: an example states all of them."""
    return {name: n for name, n in replay(rows, design)["total"].items() if n}


def total(rows, design, **changes):
    return replay(rows, {**design, **changes})["total"]
