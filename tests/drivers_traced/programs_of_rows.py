"""Programs for tests: as lists of rows, at random, and as the driver takes them."""

import numpy as np
from hypothesis import strategies as st

from nicscope.config.design import POLICIES, Transport, load_design
from nicscope.config.platform import load_platform, program_costs, transfer_costs
from nicscope.drivers.simulate.ports.costs import service_costs
from nicscope.drivers.simulate.traced.build import Subject
from nicscope.drivers.simulate.traced.program import (
    ROW_NAMES,
    OthersWaitedFor,
    Program,
    WaitedFor,
)
from nicscope.drivers.simulate.traced.timing import Timing

BASE = 1 << 32
PAGE = 4096
SETTINGS = {"entries": 64, "ways": 2}


def subject(name, **settings):
    """A design of the catalog on its own platform."""
    import msgspec

    design = msgspec.structs.replace(load_design(name), **settings).at_page_size(PAGE)
    platform = load_platform(design.platform)
    costs = program_costs(platform, design.scheme, served_by=design.served_by or platform.served_by)
    return Subject(
        design,
        transfer_costs(platform),
        service_costs(costs, design),
        POLICIES[design.delivery],
        Transport(most_retries=40),
    )


def row(operation, peer=-1, *, address=0, length=0, name=0, ns=0, after=None, **others):
    """A row; ``after`` of None: behind the row before."""
    return {
        "operation": operation,
        "peer": peer,
        "address": address,
        "length": length,
        "name": name,
        "duration_ns": ns,
        "after": after,
        "after_start": others.get("after_start", ()),
        "after_others": others.get("after_others", ()),
        "after_start_others": others.get("after_start_others", ()),
    }


def compute(ns):
    """The CPU is busy."""
    return row("COMPUTE", ns=ns)


def fetch(node, page=0, **how):
    """A page comes from its home."""
    return row("FETCH", node, address=BASE + page * PAGE, length=PAGE, **how)


def deposit(node, page=0, length=64, **how):
    """Some bytes go home."""
    return row("DEPOSIT", node, address=BASE + page * PAGE + 128, length=length, **how)


def program(nodes, rows):
    """What the driver takes; without lists where every row waits for the one before alone."""
    flat = [each for own in rows for each in own]
    first = np.cumsum([0, *map(len, rows)])
    codes = {name: code for code, name in enumerate(ROW_NAMES)}

    def column(name, kind):
        return np.array([each[name] for each in flat], kind)

    places = [i for own in rows for i in range(len(own))]
    after = [
        ([place - 1] if place else []) if each["after"] is None else each["after"]
        for place, each in zip(places, flat, strict=True)
    ]
    plain = all(each["after"] is None for each in flat)
    return Program(
        nodes=np.array(nodes, np.int64),
        first=first.astype(np.int64),
        operation=np.array([codes[each["operation"]] for each in flat], np.uint8),
        peer=column("peer", np.int32),
        address=column("address", np.uint64),
        length=column("length", np.uint32),
        name=column("name", np.int64),
        duration_ns=column("duration_ns", np.uint64),
        after=None if plain else WaitedFor(*_listed(after, np.uint32)),
        after_start=_own([each["after_start"] for each in flat]),
        after_others=_others([each["after_others"] for each in flat], first),
        after_start_others=_others([each["after_start_others"] for each in flat], first),
    )


def _listed(lists, kind):
    first = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    return first, np.array([one for each in lists for one in each], kind)


def _own(lists):
    return WaitedFor(*_listed(lists, np.uint32)) if any(lists) else None


def _others(lists, first):
    whole = [[int(first[p]) + i for p, i in each] for each in lists]
    return OthersWaitedFor(*_listed(whole, np.int64)) if any(lists) else None


def timed(nodes, rows, on="vmmc-static", **how):
    """The timing of a program, run, with the time at which each row ended."""
    timing = Timing(program(nodes, rows), on if isinstance(on, Subject) else subject(on),
                    keep_ends=True)  # fmt: skip
    return timing, timing.run(**how)


def times_of(timing, rows):
    """When each row began and ended, by process and place."""
    traced, flat = timing.machine.traced, [(p, i) for p, own in enumerate(rows)
                                           for i in range(len(own))]  # fmt: skip
    return (
        dict(zip(flat, traced.begun.tolist(), strict=True)),
        dict(zip(flat, traced.ended.tolist(), strict=True)),
    )


@st.composite
def programs(draw):
    """Programs that end: nodes of processes, and their rows.

    Events are drawn in one order in which they could happen: what waits comes behind what it waits
    for.  So no order of its processes gets stuck, as long as locks are let go of at once.
    """
    nodes = draw(st.sampled_from([[0, 1], [0, 0, 1], [0, 1, 2], [0, 0, 1, 1], [0, 1, 1, 2, 2]]))
    rows = [[] for _ in nodes]
    many = max(nodes) + 1
    for _ in range(draw(st.integers(1, 14))):
        kind = draw(st.sampled_from(["COMPUTE", "FETCH", "DEPOSIT", "message", "lock", "BARRIER"]))
        p = draw(st.integers(0, len(nodes) - 1))
        if kind == "COMPUTE":
            rows[p].append(compute(draw(st.integers(0, 200_000))))
        elif kind in ("FETCH", "DEPOSIT"):
            home = draw(st.sampled_from([n for n in range(many) if n != nodes[p]]))
            make = fetch if kind == "FETCH" else deposit
            rows[p].append(make(home, draw(st.integers(0, 5)), ns=draw(st.sampled_from([0, 500]))))
        elif kind == "message":
            _message(draw, rows, p)
        elif kind == "lock":
            name = draw(st.integers(0, 2))
            rows[p] += [row("LOCK", name=name), compute(draw(st.integers(0, 50_000)))]
            rows[p].append(row("UNLOCK", name=name))
        else:
            for own in rows:
                own.append(row("BARRIER", name=draw(st.just(0))))
    return nodes, [_loosened(draw, own) for own in rows]


def _message(draw, rows, p):
    q = draw(st.sampled_from([each for each in range(len(rows)) if each != p]))
    tag, length = draw(st.integers(0, 1)), draw(st.sampled_from([0, 1, 300, 6000]))
    at = BASE + draw(st.integers(0, 5)) * PAGE if length else 0
    rows[p].append(row("SEND", q, address=at, length=length, name=tag))
    rows[q].append(row("RECEIVE", p, address=at, length=length, name=tag))


def _loosened(draw, own):
    """The rows of a process; now and then a fetch or store need not wait for those just before."""
    loose = []
    for i, each in enumerate(own):
        free = ("FETCH", "DEPOSIT", "COMPUTE")
        if i and each["operation"] in free and own[i - 1]["operation"] in free:
            if draw(st.booleans()):
                before = loose[i - 1]["after"]
                each = {**each, "after": [i - 2] * (i > 1) if before is None else list(before)}
        elif i and loose[i - 1]["after"] is not None:
            each = {**each, "after": list(range(i))}
        loose.append(each)
    return loose
