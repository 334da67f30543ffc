"""Packets that propagate: the driver against the twin, and what a delay changes and what not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers_simulate.test_delivery_agrees_with_the_oracle import (
    MESSAGE_FIELDS,
    driven,
    first_difference,
    rows,
)
from drivers_simulate.test_delivery_under_faults import faults_on, hazards_of
from oracle.delivery import rows_of
from oracle.delivery_delay import Delayed
from oracle.delivery_records import LOG_FIELDS, NET_TX
from oracle.delivery_strategies import PLAUSIBLE, Delivery, Scenario, crossbar, pair, scenarios
from suite import share

MS = 10**9  # ps
DELAYS = st.sampled_from((1, 17, 300, 1200, 5000, 40_000, MS))


def compare(scenario, delay, faults=None):
    network = scenario.network
    hazards = None if faults is None else hazards_of(faults)
    want = Delayed(
        delay, scenario.costs, scenario.delivery, network.paths, network.hops, network.links,
        scenario.runs, scenario.copies, scenario.masters, hazards,
    ).run()  # fmt: skip
    got = driven(scenario, delay_ps=delay, faults=faults)
    records = [tuple(record[name] for name in LOG_FIELDS) for record in want.log]
    difference = first_difference(rows(got.log, LOG_FIELDS), records)
    assert difference is None, difference
    assert rows(got.messages, MESSAGE_FIELDS) == rows_of(want.messages)
    assert got.end_ps == want.now


@given(scenarios(), DELAYS)
def test_the_driver_agrees_with_the_twin_over_a_delay(scenario, delay):
    compare(scenario, delay)


@share(0.5)
@given(st.data(), scenarios(), DELAYS)
def test_the_driver_agrees_with_the_twin_over_a_delay_under_faults(data, scenario, delay):
    compare(scenario, delay, data.draw(faults_on(scenario.network)))


def one_way(delay, count=300, payload=4096, shape=None):
    """``count`` messages of node 0 to node 1."""
    shape = pair() if shape is None else shape
    runs = [(0, 1, payload, count, 0)]
    return driven(Scenario(shape, [PLAUSIBLE] * shape.nodes, Delivery(), runs), delay_ps=delay)


@pytest.mark.parametrize("payload", [0, 1, 4096])
def test_a_longer_delay_makes_every_message_later_by_as_much(payload):
    short, long = one_way(MS, 20, payload), one_way(40 * MS, 20, payload)
    later = long.messages["read"] - short.messages["read"]
    assert (later == 39 * MS).all()
    assert (long.messages["posted"] == short.messages["posted"]).all()


def test_packets_are_in_flight_together_more_than_there_was_room_for_at_first():
    none, far = one_way(0), one_way(40 * MS)
    # All have left before the first has come, at the pace at which they would without a delay.
    assert far.messages["read"].min() > 40 * MS > far.messages["posted"].max() > 10 * MS
    assert far.end_ps - 40 * MS == pytest.approx(none.end_ps, rel=0.05)
    assert list(far.messages["packet"]) == list(range(300))


def test_the_link_is_busy_for_the_serialisation_alone():
    busy = [int(one_way(delay, 10).counters["link_busy"][0]) for delay in (MS, 40 * MS)]
    assert busy[0] == busy[1] < MS


def test_those_who_send_to_one_node_take_turns_at_its_link_and_come_in_that_order():
    runs = [(s, 3, 1000, 10, 0) for s in range(3)]
    scenario = Scenario(crossbar(4), [PLAUSIBLE] * 4, Delivery(), runs)
    found = driven(scenario, delay_ps=10 * MS)
    sent = found.log[(found.log["engine"] == NET_TX) & (found.log["control"] == 0)]
    order = list(dict.fromkeys((int(one["sender"]), int(one["packet"])) for one in sent))
    read = [(int(one["sender"]), int(one["packet"])) for one in found.messages]
    assert len(order) == 30
    assert order == read


def test_a_packet_dies_that_is_in_flight_when_its_receiver_does():
    from nicscope.drivers.simulate.ports.build import Faults

    scenario = Scenario(pair(), [PLAUSIBLE] * 2, Delivery(), [(0, 1, 1000, 3, 0)])
    found = driven(scenario, delay_ps=10 * MS, faults=Faults(node_deaths={1: 5 * MS}))
    assert (found.messages["read"] == -1).all()
    assert int(found.counters["cut_off"][1]) == 3
