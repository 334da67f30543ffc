"""Programs carried out by coroutines, each of which asks for one row after the other.

The coroutines know of posts and reports only.  They run on the same machine, and end at the same
picosecond as what follows the rows.
"""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers_traced.programs_of_rows import PAGE, compute, deposit, fetch, program, row, subject
from nicscope.drivers.simulate.process import Simulation
from nicscope.drivers.simulate.records import COMPUTE, POST, REPORT, SLEEP
from nicscope.drivers.simulate.traced.build import set_up
from nicscope.drivers.simulate.traced.timing import Timing
from nicscope.fabric.topology import crossbar
from nicscope.nic.ports.layout import FETCH, SENT, WRITE
from suite import share

KINDS = {"FETCH": FETCH, "DEPOSIT": WRITE, "SEND": WRITE}


async def follow(process, port, rows, ways, is_alone):
    """Carry rows out one after the other; when each has ended."""
    ended = []
    for each in rows:
        if each["duration_ns"]:
            operation = COMPUTE if is_alone else SLEEP
            await process.ask(operation, duration=each["duration_ns"] * 1000)
        if each["operation"] != "COMPUTE":
            await process.ask(
                POST,
                peer=port,
                own=KINDS[each["operation"]],
                tag=ways[each["peer"]],
                duration=each["address"],
                address=each["address"],
                payload=each["length"],
            )
            await process.ask(REPORT, peer=port, own=SENT)
        ended.append(process.now)
    return ended


def by_coroutines(nodes, rows, on):
    """When each row ended, by process."""
    given = program(nodes, rows)
    machine = set_up(given, on)  # whose ports, exports and imports the coroutines use
    delivery = msgspec.structs.replace(on.delivery, max_payload=PAGE)
    simulation = Simulation(
        [on.transfers] * given.node_count,
        delivery,
        crossbar(given.node_count),
        nodes,
        0,
        ports=machine.ports,
    )
    simulation.run(
        [
            follow(
                process,
                int(machine.scripted[p]["port"]),
                rows[p],
                machine.traced.home_ways[p].tolist(),
                nodes.count(nodes[p]) == 1,
            )
            for p, process in enumerate(simulation.processes)
        ]
    )
    return simulation.results


def by_rows(nodes, rows, on):
    timing = Timing(program(nodes, rows), on, keep_ends=True)
    timing.run()
    ended = iter(timing.machine.traced.ended.tolist())
    return [[next(ended) for _ in own] for own in rows]


@st.composite
def moving(draw):
    """Programs that compute, fetch and deposit."""
    nodes = draw(st.sampled_from([[0, 1], [0, 1, 2], [0, 0, 1], [0, 0, 0, 1, 1, 2]]))
    rows = []
    for node in nodes:
        own = [compute(draw(st.integers(1, 30_000)))]
        homes = [each for each in range(max(nodes) + 1) if each != node]
        for _ in range(draw(st.integers(0, 5))):
            make = draw(st.sampled_from([fetch, deposit]))
            ns = draw(st.sampled_from([0, 0, 700]))
            own.append(make(draw(st.sampled_from(homes)), draw(st.integers(0, 8)), ns=ns))
        rows.append(own)
    return nodes, rows


@pytest.mark.parametrize(
    "design", ["vmmc-static", "utlb", "utlb-process", "vmmc-interrupt", "mini", "unet-mm-pca200"]
)
@share(0.3)
@given(given=moving())
def test_both_end_every_row_at_the_same_picosecond(design, given):
    assert by_rows(*given, subject(design)) == by_coroutines(*given, subject(design))


def test_so_do_rows_of_many_packets():
    rows = [[row("FETCH", 1, address=5000, length=50_000)], [compute(10)]]

    for design in ("utlb", "mini"):
        assert by_rows([0, 1], rows, subject(design)) == by_coroutines(
            [0, 1], rows, subject(design)
        )
