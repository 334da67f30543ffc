"""Faults of a network without ports: the driver against the twin, and what conservation asks."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers_simulate.test_delivery_agrees_with_the_oracle import (
    MESSAGE_FIELDS,
    driven,
    first_difference,
    rows,
    told,
)
from nicscope.drivers.simulate.ports.build import Faults
from nicscope.fabric.faults import CORRUPTED, LOST, fate, new_faults
from oracle.delivery import rows_of
from oracle.delivery_records import HOST_RCV, LOG_FIELDS, NET_TX
from oracle.delivery_strategies import PLAUSIBLE, Delivery, Scenario, pair, scenarios

CHANCES = st.sampled_from((0.0, 0.2, 0.5, 1.0))


@st.composite
def faults_on(draw, network):
    deaths = st.sampled_from((0, 500, 2500, 20_000))
    return Faults(
        seed=draw(st.integers(0, 99)),
        loss=draw(CHANCES),
        corruption=draw(CHANCES),
        node_deaths=draw(st.dictionaries(st.integers(0, network.nodes - 1), deaths, max_size=1)),
        link_deaths=draw(st.dictionaries(st.integers(0, network.links - 1), deaths, max_size=1)),
    )


def hazards_of(faults):
    """The twin's: by the hash that ``tests/fabric`` holds against its source, and the deaths."""
    of = new_faults(faults.seed, faults.loss, 0.0, 0.0, faults.corruption)[0]

    def befalls(sender, number, destination, links, now):
        ends = [faults.node_deaths.get(node, now + 1) for node in (sender, destination)]
        ends += [faults.link_deaths.get(link, now + 1) for link in links]
        what = fate(of, sender, number, 0)
        if min(ends) <= now or what & LOST:
            return "lost"
        return "corrupted" if what & CORRUPTED else None

    return befalls


@given(st.data(), scenarios())
def test_the_driver_agrees_with_the_twin_under_faults(data, scenario):
    faults = data.draw(faults_on(scenario.network))
    want, got = told(scenario, hazards_of(faults)), driven(scenario, faults=faults)
    records = [tuple(record[name] for name in LOG_FIELDS) for record in want.log]
    difference = first_difference(rows(got.log, LOG_FIELDS), records)
    assert difference is None, difference
    assert rows(got.messages, MESSAGE_FIELDS) == rows_of(want.messages)
    assert got.end_ps == want.now


@given(st.data(), scenarios())
def test_every_packet_is_read_once_or_counted_as_one_that_is_not(data, scenario):
    faults = data.draw(faults_on(scenario.network))
    found = driven(scenario, faults=faults)
    read = Counter(bool(message["read"] >= 0) for message in found.messages)
    gone = sum(int(found.counters[why].sum()) for why in ("lost", "corrupted", "cut_off"))
    aborted = int(found.counters["aborted"].sum())
    assert read[True] + read[False] == sum(run[3] for run in scenario.runs)
    assert read[False] == gone + aborted


PLAIN = Scenario(pair(), [PLAUSIBLE] * 2, Delivery(max_payload=4096), [(0, 1, 4096, 20, 0)])


@pytest.mark.parametrize("payload", [0, 4096])
@pytest.mark.parametrize(
    ("faults", "counter"),
    [
        (Faults(loss=1.0), "lost"),
        (Faults(corruption=1.0), "corrupted"),
        (Faults(link_deaths={0: 0}), "cut_off"),
        (Faults(node_deaths={1: 0}), "cut_off"),
    ],
)
def test_what_befell_packets_is_counted_at_their_receiver(faults, counter, payload):
    found = driven(replace(PLAIN, runs=[(0, 1, payload, 20, 0)]), faults=faults)
    counters = {why: list(found.counters[why]) for why in ("lost", "corrupted", "cut_off")}
    assert counters.pop(counter) == [0, 20]
    assert counters == {why: [0, 0] for why in counters}
    assert (found.messages["read"] == -1).all()


def test_a_packet_that_the_watchdog_takes_is_counted_as_nothing_else():
    hurried = replace(PLAIN, costs=[PLAUSIBLE | {"link_watchdog": 10_000_000}] * 2)
    found = driven(hurried, faults=Faults(corruption=1.0))
    assert found.counters["aborted"].sum() == 20
    assert found.counters["corrupted"].sum() == 0


def moved(found, engine):
    of = found.log[(found.log["engine"] == engine) & (found.log["control"] == 0)]
    return int(of["bytes"].sum())


def test_a_damaged_packet_has_taken_all_its_time_and_a_lost_one_none_behind_its_header():
    damaged, lost = (driven(PLAIN, faults=Faults(**{what: 1.0})) for what in ("corruption", "loss"))
    whole = driven(PLAIN, faults=Faults())
    assert moved(damaged, NET_TX) == moved(whole, NET_TX) == 20 * 4096
    assert moved(lost, NET_TX) == moved(lost, HOST_RCV) == 0
    assert 0 < moved(damaged, HOST_RCV) < 20 * 4096  # cut-through has begun before the CRC is in
