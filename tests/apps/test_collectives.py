"""Collectives on every interface: what they give is NumPy's, whatever their sizes and the network.

``time_collective`` checks each result, bit for bit, in the program itself.
"""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nicscope.apps.collectives.operations import Arithmetic, Messages, bounds
from nicscope.apps.collectives.running import INTERFACES, Machine, run_ranks
from nicscope.errors import SimulationError, StudyError
from nicscope.interfaces import Faults
from nicscope.studies.collectives import (
    ALGORITHMS,
    SIZED,
    Inputs,
    alpha_beta,
    bound_us,
    exchanged,
    ring_reduced,
    time_collective,
    tree_reduced,
)
from pairwise import in_turn
from refusals import refused

WAYS = [(name, one) for name in SIZED for one in ALGORITHMS[name]]
KINDS = ["u1", "<i8", "<f4", "<f8"]


def faults(interface, seed):
    """What may befall a packet there: one of Trapeze holds its path, so none comes twice."""
    doubled = 0.0 if interface == "trapeze" else 0.05
    return Faults(seed=seed, loss=0.03, corruption=0.03, duplication=doubled)


def run(interface, ranks, what, count, kind="<f8", operation="sum", repeat=1, **machine):
    inputs = Inputs(ranks, count, kind, 3, Arithmetic(operation))
    return time_collective(Machine(interface, **machine), ranks, *what, inputs, repeat)


@given(
    interface=st.sampled_from(INTERFACES),
    ranks=st.integers(1, 5),
    way=st.sampled_from(WAYS),
    count=st.integers(0, 300),
    kind=st.sampled_from(KINDS),
    operation=st.sampled_from(["sum", "max", "min"]),
    seed=st.none() | st.integers(0, 99),
)
@example("vmmc", 3, ("allreduce", "ring"), 2, "<f8", "sum", None)  # a part of each is empty
@example("trapeze", 3, ("allreduce", "tree"), 173, "u1", "sum", 1)  # DMA cannot begin there
def test_results_are_numpys_for_any_size(interface, ranks, way, count, kind, operation, seed):
    named = None if seed is None else faults(interface, seed)

    timed = run(interface, ranks, way, count, kind, operation, faults=named)

    assert len(timed.times_us) == 2
    assert min(timed.times_us) >= 0


@pytest.mark.parametrize(("way", "interface"), in_turn(pytest.mark.long, WAYS, INTERFACES))
def test_results_are_right_on_many_nodes(interface, way):
    for ranks, count in ((7, 5000), (8, 4096), (16, 1001)):
        run(interface, ranks, way, count)


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_a_megabyte_gets_through_where_sixteen_nodes_of_via_send_at_once(way):
    run("via", 16, way, 1 << 17, repeat=1)


@pytest.mark.parametrize(
    "way",
    [
        *("pci", "edt", "dma", "cc-dma-retry"),
        *(pytest.param(way, marks=pytest.mark.long) for way in ("cni", "pio")),  # word by word
    ],
)
def test_results_are_right_over_every_way_of_via(way):
    run("via", 3, ("allreduce", "ring"), 200, way=way)


@pytest.mark.parametrize("design", ["utlb-shared", "utlb-process", "vmmc-static", "vmmc-interrupt"])
def test_results_are_right_with_every_design_of_vmmc(design):
    run("vmmc", 3, ("alltoall", "pairwise"), 700, design=design)


def test_results_are_right_in_a_pinned_area():
    run("unet", 3, ("allreduce", "tree"), 700, design="unet")


@pytest.mark.parametrize("way", [("allreduce", "ring"), ("allreduce", "tree")])
def test_an_addition_that_is_left_out_is_found(way, monkeypatch):
    whole, calls = Arithmetic.combine, []

    async def once_less(self, wire, dtype, left, right, into):
        calls.append(into)
        if len(calls) != 2:
            await whole(self, wire, dtype, left, right, into)

    monkeypatch.setattr(Arithmetic, "combine", once_less)

    with pytest.raises(StudyError, match=r"where NumPy has .*: please report it"):
        run("vmmc", 3, way, 100)


def test_a_part_that_goes_to_another_is_found(monkeypatch):
    whole = Messages.exchange

    async def amiss(self, to, out, of, into):
        await whole(self, to, out._replace(at=out.at - out.at % 8), of, into._replace(at=into.at))
        if self.rank == 1 and into.length:
            await self.wire.store(into.buffer, bytes(into.length))

    monkeypatch.setattr(Messages, "exchange", amiss)

    with pytest.raises(StudyError, match="gives rank 1"):
        run("mini", 3, ("alltoall", "pairwise"), 30)


@pytest.mark.parametrize("interface", INTERFACES)
def test_what_goes_wrong_costs_time_and_changes_no_result(interface):
    well = run(interface, 3, ("allreduce", "ring"), 600)
    badly = run(interface, 3, ("allreduce", "ring"), 600, faults=faults(interface, 4))

    assert sum(badly.times_us) > sum(well.times_us)


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_a_dead_node_is_an_error_of_one_line(interface, way):
    with pytest.raises(SimulationError) as caught:
        run(interface, 3, way, 400, faults=Faults(node_deaths={1: 500_000_000}), repeat=9)

    assert "\n" not in str(caught.value)
    assert "1" in str(caught.value)


def test_arrays_are_pinned_and_looked_up_in_the_first_call_alone():
    first, *later = run("vmmc", 2, ("allreduce", "tree"), 2000, repeat=2).pins

    assert first > 4
    assert later == [0, 0]
    misses = run("vmmc", 2, ("allreduce", "tree"), 2000, repeat=2).misses
    assert misses[0] > misses[1] == misses[2]


def test_a_small_cache_misses_in_later_calls_too():
    from nicscope.studies.collectives import _set

    small = _set(None, "vmmc", ["entries=8"])

    assert run("vmmc", 2, ("broadcast", "tree"), 20_000, design=small).misses[1] > 20


@pytest.mark.parametrize("interface", INTERFACES)
def test_no_collective_is_below_its_bound(interface):
    measured = alpha_beta(Machine(interface))

    assert measured.alpha_us > 1
    assert measured.beta_us > 0.001
    sizes = [(2, 3), (4, 300), (5, 1024)]
    for number, way in enumerate(WAYS, INTERFACES.index(interface)):
        ranks, count = sizes[number % 3]
        later = run(interface, ranks, way, count).times_us[1]
        assert later >= bound_us(*way, ranks, count, 8, measured) > 0


def test_who_sends_more_than_is_received_hears_of_it():
    from nicscope.apps.collectives.operations import HostArray

    async def body(party):
        array = HostArray(party.wire, 9000, "u1")
        if party.rank:
            await party.messages.send(0, array.part(0, 5000))
            await party.messages.settle()
        else:
            await party.messages.came(await party.messages.receive(1, array.part(0, 4999)))

    with refused(SimulationError, "rank 1", "5000 bytes", "rank 0"):
        run_ranks(Machine("vmmc"), 2, 20_000, body)


def test_the_order_of_additions_is_each_algorithms_own():
    inputs = [np.array([one]) for one in (1.0, 1e16, -1e16, 1.0, 3.0)]

    assert ring_reduced(inputs, "sum")[0] == (((1.0 + 1e16) - 1e16) + 1.0) + 3.0
    assert tree_reduced(inputs, "sum")[0] == ((1.0 + 3.0) + 1e16) + (-1e16 + 1.0)


@given(st.integers(1, 9), st.integers(0, 40))
def test_the_twins_of_integers_are_plain_sums_and_transpositions(ranks, count):
    inputs = [np.arange(count) * (rank + 1) for rank in range(ranks)]
    ends = bounds(count, ranks)

    for reduced in (ring_reduced, tree_reduced):
        assert np.array_equal(reduced(inputs, "sum"), np.sum(inputs, axis=0))
    assert ends[0] == 0
    assert ends[-1] == count
    assert max(np.diff(ends)) - min(np.diff(ends)) <= 1
    together = np.concatenate([exchanged(inputs, rank) for rank in range(ranks)])
    assert np.array_equal(np.sort(together), np.sort(np.concatenate(inputs)))
