"""What ``nicscope flow`` is asked, and what it refuses."""

import pytest

from flow_samples import COSTS, UNSAID, asked, made_up
from nicscope.config.design import POLICIES
from nicscope.errors import NicscopeError
from nicscope.studies import flow
from nicscope.studies.flow import ask
from refusals import refused


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_left_out_is_the_policys(policy):
    found = asked(policy=policy)

    assert found.delivery == POLICIES[policy]
    assert (found.payload, found.count, found.gap_ps) == (8192, 8, 0)
    assert (found.topology.name, found.topology.nodes, found.flows) == ("crossbar", 2, ((0, 1),))
    assert found.costs() == [COSTS | UNSAID] * 2


def test_every_part_of_a_nic_can_be_set():
    found = asked(
        payload="64KiB",
        max_payload="128KiB",
        minpulse=256,
        buffers=7,
        ring=9,
        logging=True,
        gap="1.5us",
        count=3,
    )

    nic = found.delivery
    assert (found.payload, nic.max_payload) == (65536, 131072)
    assert (nic.minpulse_send, nic.minpulse_receive) == (256, 256)
    assert (nic.send_buffers, nic.receive_buffers) == (7, 7)
    assert (nic.send_ring, nic.receive_ring) == (9, 9)
    assert nic.logging
    assert found.gap_ps == 1_500_000


def test_a_cost_that_is_set_holds_on_both_platforms():
    found = asked(to="other", assignments=["link_per_byte=6.25ns/B", "send_call=0us"])

    changed = COSTS | UNSAID | {"link_per_byte": 6250, "send_call": 0}
    assert found.costs() == [changed, changed]


def test_senders_are_of_one_platform_and_receivers_of_the_other(monkeypatch):
    slow = made_up("slow")
    slow.costs["pio_read"] = slow.costs["send_call"]
    monkeypatch.setattr(flow, "load_platform", lambda n: slow if n == "slow" else made_up(n))

    found = ask(platform="fast", to="slow", topology="trunk", nodes=4)

    assert [costs["pio_read"] for costs in found.costs()] == [3_000_000] * 2 + [1_000_000] * 2
    assert [found.platform_of(node).name for node in range(4)] == ["fast"] * 2 + ["slow"] * 2


def test_small_buffers_lower_a_minpulse_that_nobody_asked_for():
    assert asked(payload="64", max_payload="64").delivery.minpulse_send == 64


def test_a_platform_that_does_not_exist_is_refused():
    with refused(NicscopeError, "'p7'"):
        ask(platform="p7")


def test_a_platform_that_states_no_costs_of_delivery_is_refused(monkeypatch):
    partial = made_up("partial", absent=("pio_write", "link_start"))
    monkeypatch.setattr(flow, "load_platform", lambda _: partial)

    with refused(NicscopeError, "'partial'", "pio_write, link_start, so ", "it can on alcor"):
        ask(platform="partial")
