"""Chains: operations that are asked for together are those that are asked for one by one."""

import runpy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interfaces import small_programs
from nicscope.drivers.simulate.ports.build import Faults, PortSize
from nicscope.drivers.simulate.processor import continues_chain
from nicscope.errors import SimulationError
from nicscope.interfaces.ports.process import MOST_BEFORE
from nicscope.nic.ports.layout import SEND
from ports.apart import keep_runs, take_apart
from ports.port_world import cluster_of, content, join, run_on_nodes
from refusals import refused
from suite import share

EXAMPLES = Path(__file__).parents[2] / "examples"
PAGE = 4096
NAMES = ("unet_pingpong", "unet_mm_paging", "mini_many_buffers", "vmmc_store_fetch")


def both_ways(run, is_used=True):
    """What ``run`` leaves with chains, and with chains taken apart."""
    with pytest.MonkeyPatch.context() as changed:
        whole = keep_runs(changed)
        run()
    with pytest.MonkeyPatch.context() as changed:
        asked = take_apart(changed)
        apart = keep_runs(changed)
        run()
    assert whole
    assert len(whole) == len(apart)
    assert not is_used or max(asked) > 1
    return whole, apart


@pytest.mark.parametrize("name", NAMES)
def test_an_example_leaves_the_same_with_its_chains_taken_apart(name):
    whole, apart = both_ways(
        lambda: runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__"), is_used=False
    )

    assert whole == apart


@pytest.mark.parametrize("design", ["unet-mm-pca200", "unet-mm-dc21140"])
def test_a_small_program_leaves_the_same_with_its_chains_taken_apart(design):
    whole, apart = both_ways(lambda: small_programs.on_unet(design))

    assert whole == apart


# -- random programs ---------------------------------------------------------------------------

calls = st.one_of(
    st.tuples(st.just("inline"), st.integers(0, 56)),
    st.tuples(st.just("post"), st.integers(1, 5000)),
    st.tuples(st.just("provide"), st.integers(0, 7)),
    st.tuples(st.just("compute"), st.integers(0, 9)),
)
rounds = st.lists(st.lists(calls, min_size=1, max_size=4), min_size=1, max_size=4)


async def _chatter(process, peer, plan, told):
    """Post as ``plan`` says, in chains that end with a report; then take in what has come."""
    join(process, 0, peer, 0)
    room = process.allocate(8 * PAGE)
    await room.write(content(process.node, PAGE))
    for place, chain in enumerate(plan):
        before, posts = [], 0
        for kind, number in chain:
            if kind == "inline":
                raw = content(place + number, number)
                before.append(process.posting_inline(SEND, 0, raw))
            elif kind == "post":
                before.append(process.posting(SEND, 0, [(room.address, number)]))
            elif kind == "provide":
                before.append(process.providing(room.address + number * PAGE))
            else:
                await process.compute(number)
            posts += kind in ("inline", "post")
        if posts:
            after = before if len(before) > 1 else before[0]
            told.append((process.node, await process.done(after=after), process.now_us))
            for _ in range(posts - 1):
                told.append((process.node, await process.done(), process.now_us))
        elif before:
            await process.provide(room.address, room.address)
    await process.sleep(100_000)
    for _ in range(process.waiting()):
        told.append((process.node, await process.arrival(), process.now_us))


@share(0.6)
@given(
    plans=st.lists(rounds, min_size=2, max_size=4),
    design=st.sampled_from(["utlb", "vmmc-interrupt", "unet-mm-pca200"]),
    loss=st.sampled_from([0.0, 0.1]),
    death=st.sampled_from([None, 300, 3000]),
)
def test_random_chains_are_what_one_call_after_the_other_is(plans, design, loss, death):
    heard = []

    def run():
        told = []
        deaths = {} if death is None else {1: death * 10**6}
        cluster = cluster_of(
            design,
            faults=Faults(loss=loss, seed=3, node_deaths=deaths),
            size=PortSize(ring=8),
        )
        for place, plan in enumerate(plans):
            cluster.start(place % 2, lambda p, plan=plan: _chatter(p, 1 - p.node, plan, told))
        try:
            cluster.run()
        except SimulationError as error:
            told.append(str(error))
        heard.append(told)

    with pytest.MonkeyPatch.context() as changed:
        whole = keep_runs(changed)
        run()
    with pytest.MonkeyPatch.context() as changed:
        take_apart(changed)
        apart = keep_runs(changed)
        run()

    assert heard[0] == heard[1]
    assert whole == apart


# -- refusals ----------------------------------------------------------------------------------


def run_one(program, **how):
    cluster = cluster_of("utlb", **how)
    run_on_nodes(cluster, program, _nothing)
    return cluster


async def _nothing(process):
    """Another node."""


def test_a_refused_call_is_an_error_where_the_chain_is_awaited_and_ends_it():
    seen = []

    async def program(process):
        join(process, 0, 1, 0)
        asked = [process.posting_inline(SEND, 0, bytes([i])) for i in range(3)]
        table = process._ports.table[0]
        table["given"][process.port] += 1  # the port is another's by now
        with refused(SimulationError, "port 1 of node 0", "closed"):
            await process.done(after=asked)
        seen.append((process.now_us, int(table["posted"][process.port])))

    def run():
        return run_one(program)

    whole, apart = both_ways(run)

    assert seen[0] == seen[1]
    assert seen[0][1] == 0
    assert whole == apart


def test_what_cannot_stand_before_a_call_is_refused_before_anything_begins():
    async def program(process):
        join(process, 0, 1, 0)
        room = process.allocate(PAGE)
        two = [(room.address, 8), (room.address + 8, 8)]
        first = process.posting(SEND, 0, two)
        many = [process.posting_inline(SEND, 0, b"") for _ in range(MOST_BEFORE + 1)]
        call = process.post_inline(SEND, 0, b"")
        for wrong, why in (
            (many, "up to 7 calls"),
            ([many[0], first], "only the first can post several"),
            ([call], "posting_inline"),
            ("post", "posting_inline"),
        ):
            with pytest.raises(SimulationError, match=why):
                await process.done(after=wrong)
        call.close()
        assert process.now_us == 0
        assert (await process.done(after=[first, *many[:2]])).request == first.request

    run_one(program)


def test_what_another_process_asked_for_is_refused():
    given = []

    async def gives(process):
        given.append(process.posting_inline(SEND, 0, b"mine"))

    async def takes(process):
        with refused(SimulationError, "another process"):
            await process.done(after=given[0])

    cluster = cluster_of("utlb")
    run_on_nodes(cluster, (gives, takes))


def test_a_node_that_dies_takes_the_rest_of_its_chain_with_it():
    posted = []

    def run(death=None):
        async def program(process):
            join(process, 0, 1, 0)
            await process.done(after=[process.posting_inline(SEND, 0, b"") for _ in range(7)])

        faults = Faults() if death is None else Faults(node_deaths={0: death})
        cluster = run_one(program, faults=faults)
        machine = cluster.simulation.machine
        posted.append(int(machine.ports.table[0]["posted"][1]))
        return int(machine.ports.costs[0]["post"])

    each = run()
    assert posted.pop() == 7
    for count in range(7):
        whole, apart = both_ways(lambda count=count: run(count * each + each // 2))

        assert whole == apart
        assert posted[-2:] == [count + 1, count + 1]  # the one under way ends


def test_processes_that_go_on_at_one_moment_do_so_in_their_order():
    cluster = cluster_of("utlb")
    for node in (0, 0, 1):
        cluster.start(node, _nothing)
    cluster.run()
    machine = cluster.simulation.machine
    machine.chained["last"] = 1
    machine.processes["own"] = 0

    assert all(continues_chain(machine, p, 0) for p in (2, 0, 1))

    assert machine.due[:3].tolist() == [0, 1, 2]
