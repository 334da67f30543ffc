"""The compiled driver against the twin: every message and every log record, to the picosecond."""

import pytest
from hypothesis import given

from oracle.delivery import rows_of, simulate
from oracle.delivery_checks import check_all
from oracle.delivery_records import FIRMWARE, LOG_FIELDS, Delivery
from oracle.delivery_strategies import (
    PLAUSIBLE,
    Scenario,
    crossbar,
    pair,
    scenarios,
    trunk,
    unhurried_scenarios,
)
from suite import share

MESSAGE_FIELDS = ("sender", "packet", "destination", "payload", "posted", "read")


def driven(scenario, keep_log=1 << 20, delay_ps=0, **how):
    """The ``Outcome`` of the driver."""
    from nicscope.config.design import Delivery as DriverDelivery
    from nicscope.config.design import Policy
    from nicscope.drivers.simulate.processor import OtherMaster
    from nicscope.drivers.simulate.script import Copy, Run, simulate_script
    from nicscope.fabric.topology import Topology

    network, settings = scenario.network, scenario.settings()
    settings["policy"] = Policy(settings["policy"])
    return simulate_script(
        scenario.costs,
        DriverDelivery(**settings),
        Topology(
            "drawn", network.nodes, network.links, network.paths, network.hops, delay_ps=delay_ps
        ),
        [Run(*run) for run in scenario.runs],
        copies=[Copy(*copy) for copy in scenario.copies],
        masters=[OtherMaster(*master) for master in scenario.masters],
        keep_log=keep_log,
        **how,
    )


def told(scenario, hazards=None):
    """The finished twin."""
    network = scenario.network
    return simulate(
        scenario.costs,
        scenario.delivery,
        network.paths,
        network.hops,
        network.links,
        scenario.runs,
        scenario.copies,
        scenario.masters,
        hazards,
    )


def rows(array, names):
    return [tuple(int(record[name]) for name in names) for record in array]


def log_rows(array):
    return [dict(zip(LOG_FIELDS, row, strict=True)) for row in rows(array, LOG_FIELDS)]


def first_difference(got, want):
    """The first line, in order of time, that only one of two logs has; None if they agree."""
    order = LOG_FIELDS.index("end"), LOG_FIELDS.index("node"), LOG_FIELDS.index("engine")

    def key(row):
        return tuple(row[i] for i in order), row

    got, want = sorted(got, key=key), sorted(want, key=key)
    for number in range(max(len(got), len(want))):
        ours = got[number] if number < len(got) else None
        theirs = want[number] if number < len(want) else None
        if ours != theirs:
            lines = [
                dict(zip(LOG_FIELDS, row, strict=True)) if row else None for row in (ours, theirs)
            ]
            return "driver {}\ntwin   {}".format(*lines)
    return None


def compare(scenario):
    want, got = told(scenario), driven(scenario)
    records = [tuple(record[name] for name in LOG_FIELDS) for record in want.log]
    difference = first_difference(rows(got.log, LOG_FIELDS), records)
    assert difference is None, difference
    assert rows(got.messages, MESSAGE_FIELDS) == rows_of(want.messages)
    assert got.end_ps == want.now
    return got


@pytest.mark.requirement("TR-21", "TR-22", "TR-31", "TR-50")
@given(scenarios())
def test_the_driver_agrees_with_the_twin(scenario):
    compare(scenario)


@share(0.3)  # they take ten times as long as others
@given(unhurried_scenarios())
def test_the_driver_agrees_with_the_twin_when_nothing_is_dropped(scenario):
    compare(scenario)


DELIVERIES = {
    "store and forward": Delivery(policy=0, send_buffers=2, receive_buffers=2),
    "cut-through": Delivery(send_buffers=1, receive_buffers=1),
    "not eager": Delivery(eager=False, send_buffers=1, receive_buffers=1),
    "adaptive": Delivery(),
    "adaptive, logged": Delivery(logging=True),
}
NETWORKS = {
    "pair": (pair(), [(0, 1, 8192, 12, 0)], []),
    "pair, both ways": (pair(), [(0, 1, 8192, 8, 0), (1, 0, 3000, 8, 0)], []),
    "pair, copying": (pair(), [(0, 1, 8192, 8, 0)], [(1, 20_000)]),
    "crossbar": (
        crossbar(4),
        [(s, (s + step) % 4, 4096, 2, 0) for s in range(4) for step in (1, 2, 3)],
        [],
    ),
    "trunk": (
        trunk(2, 2),
        [(s, d, 4096, 3, 0) for s in (0, 1) for d in (2, 3)] + [(3, 0, 200, 5, 300_000_000)],
        [],
    ),
}


@pytest.mark.requirement(
    "TR-23", "TR-24", "TR-30", "TR-36", "TR-37", "TR-39", "TR-41", "TR-53", "SH-3"
)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("delivery", DELIVERIES)
def test_the_driver_agrees_with_the_twin_at_plausible_costs(delivery, network):
    shape, runs, copies = NETWORKS[network]
    compare(Scenario(shape, [PLAUSIBLE] * shape.nodes, DELIVERIES[delivery], runs, copies))


def test_the_driver_agrees_with_the_twin_when_a_plausible_trunk_is_too_slow():
    # Two packets of 4 KB hold the trunk for longer than a third may wait.
    shape, runs, copies = NETWORKS["trunk"]
    costs = PLAUSIBLE | {"link_watchdog": 60_000_000}
    outcome = compare(Scenario(shape, [costs] * shape.nodes, Delivery(), runs, copies))
    reads = outcome.messages["read"]
    assert (reads == -1).any()
    assert (reads >= 0).any()


@given(scenarios())
def test_the_log_is_in_order_of_its_ends(scenario):
    ends = [int(end) for end in driven(scenario).log["end"]]
    assert ends == sorted(ends)


@pytest.mark.requirement("TR-20", "TR-32")
@given(scenarios())
def test_the_driver_keeps_the_rules_of_conservation(scenario):
    got = driven(scenario)
    check_all(scenario, rows(got.messages, MESSAGE_FIELDS), log_rows(got.log))


@given(unhurried_scenarios())
def test_every_message_is_read_when_no_watchdog_expires(scenario):
    outcome = driven(scenario)
    assert len(outcome.messages) == sum(run[3] for run in scenario.runs)
    assert (outcome.messages["read"] >= 0).all()


@given(scenarios())
def test_two_runs_are_the_same_to_the_last_record(scenario):
    one, other = driven(scenario), driven(scenario)
    assert one.messages.tobytes() == other.messages.tobytes()
    assert one.log.tobytes() == other.log.tobytes()
    assert (one.end_ps, one.events) == (other.end_ps, other.events)


@given(scenarios())
def test_what_is_kept_of_the_log_changes_nothing_else(scenario):
    whole, none = driven(scenario), driven(scenario, keep_log=0)
    some = driven(scenario, keep_log=5)
    assert len(none.log) == 0
    assert rows(some.log, LOG_FIELDS) == rows(whole.log, LOG_FIELDS)[:5]
    assert whole.messages.tobytes() == none.messages.tobytes() == some.messages.tobytes()


@pytest.mark.parametrize("name", LOG_FIELDS)
def test_the_twin_and_the_driver_log_the_same_fields(name):
    from nicscope.drivers.simulate.observe import LOG, Engine

    assert LOG.names is not None
    assert name in LOG.names
    assert set(LOG.names) - set(LOG_FIELDS) == {"lookup"}  # of ports
    assert int(Engine.FIRMWARE) == FIRMWARE
