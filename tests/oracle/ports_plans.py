"""What the programs of a world do, step by step, as Hypothesis draws it."""

from hypothesis import strategies as st

from oracle.ports_records import FETCH, INLINE_BYTES, SEND, WRITE
from oracle.ports_sizes import BUFFERS, EXPORTED, PAGE, PAGES, SHARED

OPERATIONS, STORES = (SEND, SEND, WRITE, WRITE, FETCH), (SEND, WRITE, WRITE, WRITE, FETCH)


@st.composite
def plans(draw, me, hosts, ring, places, closes, tight, swaps, loops):
    """Buffers; posts with pauses; then every post's end, and what has come."""
    peers = [
        peer for peer in range(len(hosts)) if hosts[peer] != hosts[me] or (loops and peer != me)
    ]
    steps = [("register", EXPORTED * PAGE, draw(st.sampled_from((SHARED, SHARED, 1))) * PAGE)]
    provided = draw(st.permutations(range(places)))[: draw(st.sampled_from((0, 2, 6)))]
    for place in provided:
        address = (BUFFERS + place) * PAGE + draw(st.sampled_from((0, 0, 0, 100)))
        steps.append(("provide", address))
    steps.append(("sleep", draw(st.integers(0, 300 if tight else 20_000))))
    posted = 0
    for _ in range(draw(st.sampled_from((1, 2, 4) if tight else (1, 3, 6, 9)))):
        if swaps:
            steps += draw(touches())
        what = draw(st.sampled_from(("inline", "post", "post", "post", "wait", "drain", "compute")))
        if posted == ring and what in ("inline", "post"):
            what = "wait"  # a program that asks for no report would wait for ever
        name = me * len(hosts) + draw(st.sampled_from(peers[: 1 if tight else None]))
        if what == "inline":
            length = draw(st.integers(0, INLINE_BYTES))
            steps.append(("inline", name, bytes(range(length))))
            posted += 1
        elif what == "post":
            steps.append(
                (
                    "post",
                    draw(st.sampled_from(STORES if tight else OPERATIONS)),
                    name,
                    *draw(pieces((0, 0, 100, 600) if tight else range(3 * PAGE + 1))),
                )
            )
            posted += 1
        elif what == "wait" and posted:
            steps.append(("done", draw(st.sampled_from(("poll", "block", "signal")))))
            posted -= 1
        elif what == "drain":
            steps.append(("drain", True))
        else:
            kind = draw(st.sampled_from(("sleep", "compute")))
            steps.append((kind, draw(st.integers(1, 5000))))
    if closes and draw(st.booleans()):
        close_and_go_on(draw, steps, name_of=me * len(hosts) + peers[0])
    steps += [("done", "poll")] * posted
    steps += [("sleep", 100_000), ("drain", False)]
    return steps


@st.composite
def touches(draw):
    """What has pages go to the disk, and come back."""
    kind = draw(st.sampled_from(("load", "store", "swap", "swap", "none")))
    if kind == "none":
        return []
    if kind == "swap":
        return [("swap", draw(st.sampled_from((2, 10, 500, 512))))]
    address = draw(st.integers(0, PAGES - 4)) * PAGE + draw(st.integers(0, PAGE - 1))
    return [(kind, address, draw(st.sampled_from((1, 100, 1500))))]


def close_and_go_on(draw, steps, name_of):
    """The port closes at some step; then it is asked for what it does not do any more."""
    steps.insert(draw(st.integers(1, len(steps))), ("close",))
    if draw(st.booleans()):
        steps += [("provide", BUFFERS * PAGE), ("inline", name_of, b"late"), ("arrival", "poll")]


@st.composite
def pieces(draw, offsets):
    """Segments, offset in the export, notify."""
    segments = []
    for _ in range(draw(st.sampled_from((1, 1, 1, 2, 4)))):
        length = draw(st.sampled_from((1, 17, 60, 300, 511, 700, 1300, 2000)))
        page = draw(st.sampled_from((*range(8), *range(8), PAGES - 2)))
        segments.append((page * PAGE + draw(st.integers(0, PAGE - 1)), length))
    return segments, draw(st.sampled_from(offsets)), draw(st.booleans())
