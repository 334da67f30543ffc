"""Real traffic through every published design, count for count as the oracle has it."""

import pytest
from test_against_oracle import Columns, offset

from nicscope.config.design import SCHEMES, Scheme, design_names, load_design, with_settings
from nicscope.drivers.replay import replay
from nicscope.memory.replacement import Replacement
from nicscope.traces.bundled import bundled_traces
from nicscope.traces.reader import open_trace
from oracle import replay as oracle

PAGE = 4096
LOOKUPS = 1500  # the oracle is slow
SMALL = {"entries=64", "ways=2", "line=8", "pin_limit=48", "victim_entries=4", "high_water=96"}


def beginning(name):
    """The columns of the first rows of a bundled trace."""
    batch = next(iter(open_trace(bundled_traces()[name]).batches(max_rows=LOOKUPS)))
    rows = lookups = 0
    while rows < len(batch.node) and lookups < LOOKUPS:
        first = int(batch.address[rows])
        lookups += (first + int(batch.length[rows]) - 1) // PAGE - first // PAGE + 1
        rows += 1
    names = ("node", "pid", "receive", "address", "length")
    return Columns(*(getattr(batch, name)[:rows] for name in names))


def as_rows(columns):
    lists = (column.tolist() for column in columns)
    return [
        (0, node, pid, "recv" if receive else "send", address, length)
        for node, pid, receive, address, length in zip(*lists, strict=True)
    ]


def flat(design):
    """The design as the oracle takes it."""
    settings = {
        name: getattr(design, name) for name in SCHEMES[design.scheme].uses if name != "seed"
    }
    policy = settings.get("replacement")
    if policy is not None:
        settings["replacement"] = Replacement(policy).name.lower()
    given = {name: value for name, value in settings.items() if value is not None}
    if design.served_by is not None:  # a kernel that serves looks up without an interrupt
        given["served_by"] = design.served_by
    return {"scheme": Scheme(design.scheme).value, **given, "page_size": PAGE}


def made_small(design):
    known = sorted(s for s in SMALL if s.partition("=")[0] in SCHEMES[design.scheme].uses)
    return with_settings(design, known)


@pytest.mark.parametrize("name", bundled_traces())
@pytest.mark.parametrize("change", [lambda design: design, made_small], ids=["printed", "small"])
def test_every_published_design_counts_what_the_oracle_counts(name, change):
    columns = beginning(name)
    designs = [change(load_design(each)) for each in design_names()]
    rows = as_rows(columns)
    for design, result in zip(designs, replay([columns], designs), strict=True):
        want = oracle.replay(rows, flat(design), offset)
        assert {key: result.total[key] for key in want["total"]} == want["total"], design.name
        for mine, theirs in zip(result.nodes, want["nodes"], strict=True):
            assert {key: mine[key] for key in theirs} == theirs, design.name
    assert len(designs) == 11
    assert want["total"]["lookups"] >= LOOKUPS
