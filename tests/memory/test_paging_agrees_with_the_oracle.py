import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from paging_world import PAGE_SIZE, PAGES, SPACES, World

from nicscope.memory.paging import layout as code

SPACE = st.integers(0, SPACES - 1)
PAGE = st.one_of(st.integers(0, PAGES - 1), st.sampled_from([-1, PAGES, 2**62, -(2**63)]))
FIRST = st.one_of(st.integers(0, PAGES - 1), st.sampled_from([-1, PAGES, 2**63 - 1]))
COUNT = st.one_of(st.integers(0, PAGES), st.sampled_from([-1, 2**63 - 1]))
RIGHTS = st.sampled_from([code.READ | code.WRITE] * 4 + [code.READ, code.WRITE, 0])
WRITE = st.integers(0, 1)
ADDRESS = st.one_of(
    st.integers(0, PAGES * PAGE_SIZE - 1),
    st.sampled_from([-1, PAGES * PAGE_SIZE, 2**63 - 1, -(2**63)]),
)

OPERATIONS = st.one_of(
    st.tuples(st.just("map"), SPACE, FIRST, COUNT, RIGHTS),
    st.tuples(st.just("unmap"), SPACE, FIRST, COUNT),
    st.tuples(st.just("protect"), SPACE, FIRST, COUNT, RIGHTS),
    st.tuples(st.just("fork"), SPACE, SPACE),
    st.tuples(st.just("close"), SPACE),
    st.tuples(st.just("write"), SPACE, ADDRESS, st.binary(max_size=2 * PAGE_SIZE)),
    st.tuples(st.just("read"), SPACE, ADDRESS, st.integers(0, PAGES * PAGE_SIZE)),
    st.tuples(st.just("touch"), SPACE, PAGE, WRITE),
    st.tuples(st.just("renew"), SPACE, PAGE),
    st.tuples(st.just("pin"), SPACE, PAGE, WRITE),
    st.tuples(st.just("unpin"), st.integers(0, 9)),
    st.tuples(st.just("unpin_any"), SPACE, st.integers(-1, 8)),
    st.tuples(
        st.just("transfer"),
        st.integers(0, 9),
        st.binary(min_size=PAGE_SIZE, max_size=PAGE_SIZE),
    ),
    st.tuples(st.just("reclaim")),
    st.tuples(st.just("keep_free"), st.integers(0, 4)),
    st.tuples(st.just("evict"), SPACE, st.integers(0, PAGES - 1)),
    st.tuples(st.just("ask"), SPACE, ADDRESS, st.integers(0, PAGES * PAGE_SIZE), WRITE),
    st.tuples(st.just("begin"), SPACE, ADDRESS, WRITE),
    st.tuples(st.just("end")),
)
LIMITS = st.one_of(st.none(), st.integers(0, 4))

WHOLE = ("map", 0, 0, PAGES, code.READ | code.WRITE)


@pytest.mark.requirement("SH-1", "UM-51", "UM-52", "UM-53", "UM-54", "UM-55", "UM-57", "UT-42")
@given(
    st.integers(2, 7),
    st.integers(0, 8),
    LIMITS,
    LIMITS,
    st.lists(OPERATIONS, min_size=5, max_size=40),
)
@example(3, 8, None, None, [WHOLE, ("pin", 0, 0, 0), ("fork", 0, 1), ("write", 0, 0, b"abcd")])
@example(3, 8, None, None, [WHOLE, ("ask", 0, 0, 0, 0), ("read", 0, 1, 0), ("write", 0, 0, b"")])
@example(
    # Of two frames one is pinned: all other pages take turns in the other, by way of the disk.
    3,
    8,
    None,
    None,
    [
        WHOLE,
        ("pin", 0, 0, 1),
        *[("write", 0, page * PAGE_SIZE, bytes([page + 1])) for page in (1, 2, 3)],
        *[("read", 0, page * PAGE_SIZE, 1) for page in (1, 2, 3)],
        ("transfer", 0, b"t" * PAGE_SIZE),
        ("read", 0, 0, 1),
    ],
)
@example(
    # The pinner of a shared page writes to it: the frame stays, the others get the copy.
    5,
    8,
    None,
    None,
    [WHOLE, ("write", 0, 0, b"ab"), ("fork", 0, 1), ("pin", 0, 0, 0), ("write", 0, 0, b"xy")],
)
@example(
    # Two spaces pin one shared page, one of them unmaps it, the other writes.
    5,
    8,
    None,
    None,
    [
        WHOLE,
        ("write", 0, 0, b"ab"),
        ("fork", 0, 1),
        ("pin", 0, 0, 0),
        ("pin", 1, 0, 0),
        ("unmap", 0, 0, 1),
        ("write", 1, 0, b"xy"),
    ],
)
def test_any_program_sees_the_bytes_pins_and_counts_of_the_oracle(
    frames, blocks, space_limit, host_limit, program
):
    world = World(frames, blocks, space_limit, host_limit)
    for operation in program:
        world.do(*operation)
        world.check()


def drawn(source, pins):
    """An operation that is likely to succeed, so that a long run gets into deep states.

    ``pins``: how likely one is, beside 8 for giving one up.
    """
    space, page, write = source.randrange(SPACES), source.randrange(PAGES), source.randrange(2)
    rights = source.choice([code.READ | code.WRITE] * 5 + [code.READ, code.WRITE])
    bytes_drawn = source.randbytes(source.randrange(1, 6))
    address = source.randrange(PAGES * PAGE_SIZE - 5)
    return source.choices(
        [
            ("map", space, page, 1, rights),
            ("unmap", space, page, 1),
            ("protect", space, page, 1, rights),
            ("fork", source.randrange(SPACES), space),
            ("close", space),
            ("write", space, address, bytes_drawn),
            ("read", space, address, len(bytes_drawn)),
            ("touch", space, page, write),
            ("renew", space, page),
            ("pin", space, page, write),
            ("unpin", source.randrange(100)),
            ("unpin_any", space, source.randrange(-1, 9)),
            ("transfer", source.randrange(100), source.randbytes(PAGE_SIZE)),
            ("reclaim",),
            ("keep_free", source.randrange(4)),
            ("evict", space, page),
            ("ask", space, address, len(bytes_drawn), write),
            ("begin", space, address, write),
            ("end",),
        ],
        [16, 2, 2, 8, 1.5, 12, 6, 6, 2, pins, 8, 5, 6, 2, 1, 1, 5, 4, 3],
    )[0]


@pytest.mark.requirement("SH-1", "UM-51", "UM-52", "UM-54", "UM-55", "UM-57", "UT-42")
@pytest.mark.parametrize(
    ("frames", "blocks", "space_limit", "host_limit"),
    [(6, 12, None, None), (9, 12, 2, 4), (8, 3, 3, None), (5, 0, None, 2)],
)
def test_long_programs_come_upon_every_outcome_and_agree(frames, blocks, space_limit, host_limit):
    source = random.Random(frames)
    world = World(frames, blocks, space_limit, host_limit)
    for step in range(2_500):
        # In turn more pins than are given up, and fewer.
        operation = drawn(source, 24 if step // 100 % 2 else 4)
        if operation[0] == "fork" and source.random() < 0.8:
            world.do("close", operation[2])
        world.do(*operation)
        world.check()
        world.given_up = world.given_up[-8:]

    expected = {("pin", 0), ("pin", code.DENIED), ("pin", code.NOT_MAPPED), ("fork", 0)}
    expected |= {("write", 0), ("read", 0), ("transfer", 0), ("transfer", code.DENIED)}
    expected |= {("unpin_any", 0), ("unpin_any", code.DENIED), ("begin", 0), ("begin", -1)}
    expected |= {("ask", 0), ("ask", code.DENIED), ("ask", code.NOT_MAPPED)}
    assert expected <= world.reached
    # Limits leave enough frames unpinned.
    scarce = code.LIMIT if space_limit or host_limit else code.NO_FRAME
    assert scarce in {result for _, result in world.reached}
    work = world.memory.hosts[1]
    assert min(work["zeroed"], work["copied"], work["reclaimed"]) > 10
    assert blocks == 0 or min(work["page_ins"], work["page_outs"]) > 20
