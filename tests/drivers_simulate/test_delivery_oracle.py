"""The twin itself: closed formulas, cases worked by hand, then what must hold for any run."""

from dataclasses import replace

import pytest
from hypothesis import given

from oracle.delivery import rows_of, simulate
from oracle.delivery_checks import check_all
from oracle.delivery_records import (
    COMPLETE,
    CUT_THROUGH,
    FIRMWARE,
    HOST_RCV,
    HOST_TX,
    NET_RCV,
    NET_TX,
    POST_CONTROL,
    POST_PAYLOAD,
    STORE_AND_FORWARD,
    Delivery,
    Transfer,
    moment_of,
)
from oracle.delivery_strategies import AGES, crossbar, pair, scenarios, trunk, unhurried_scenarios
from suite import share

COSTS = {
    "send_call": 50_000,
    "pio_write": 3_001,
    "pio_read": 2_003,
    "pci_read_start": 4_007,
    "pci_read_per_byte": 23,
    "pci_read_contended_per_byte": 61,
    "pci_write_start": 3_019,
    "pci_write_per_byte": 19,
    "pci_write_contended_per_byte": 67,
    "link_start": 2_027,
    "link_per_byte": 7,
    "link_watchdog": AGES,
    "switch_hop": 509,
    "nic_memory_per_byte": 3,
    "firmware_start": 1_511,
    "firmware_finish": 1_009,
    "firmware_accept": 401,
    "firmware_log": 307,
    "block_copy_per_byte": 11,
    "block_copy_contended_per_byte": 13,
}
BARE = dict.fromkeys(COSTS, 0) | {
    "pci_read_per_byte": 2,
    "pci_read_contended_per_byte": 2,
    "pci_write_per_byte": 2,
    "pci_write_contended_per_byte": 2,
    "link_per_byte": 1,
    "link_watchdog": AGES,
    "block_copy_per_byte": 1,
    "block_copy_contended_per_byte": 1,
}


def run(runs, delivery=None, network=None, copies=(), base=COSTS, **costs):
    network = network or pair()
    each = [base | costs] * network.nodes
    delivery = delivery or Delivery()
    return simulate(each, delivery, network.paths, network.hops, network.links, runs, copies)


def latencies(simulation):
    return [m.read - m.posted for m in simulation.messages]


def spans(simulation, engine, node, control=0, task=-1):
    """(start, end, bytes) of the records of one engine at one node."""
    return [
        (r["start"], r["end"], r["bytes"])
        for r in simulation.log
        if (r["engine"], r["node"], r["control"], r["task"]) == (engine, node, control, task)
    ]


def parts(*names, **bytes_of):
    """The sum of costs, each name's once, ``name=byte_count`` for those per byte."""
    return sum(COSTS[name] for name in names) + sum(COSTS[n] * b for n, b in bytes_of.items())


# --- one transfer -----------------------------------------------------------------------------


def test_a_transfer_that_changes_its_rate_moves_the_byte_under_way_again():
    transfer = Transfer(5, 10, 3)
    assert [transfer.moved(t) for t in (0, 7, 8, 12, 35, 99)] == [0, 0, 1, 2, 10, 10]
    transfer.set_rate(12, 5)  # two bytes are whole, the third had 1 of its 3 ps
    assert (transfer.ends, transfer.moved(16), transfer.moved(17)) == (52, 2, 3)
    transfer.set_rate(19, 5)  # the same again changes nothing
    assert transfer.ends == 52
    assert [moment_of([transfer], b) for b in (1, 2, 3, 10, 11)] == [8, 11, 17, 52, None]


def test_a_rate_that_changes_before_the_first_byte_leaves_the_start_alone():
    transfer = Transfer(100, 4, 3)
    transfer.set_rate(40, 2)
    assert transfer.ends == 108


# --- idle pairs -------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [1, 200, 8192])
def test_store_and_forward_takes_the_sum_of_its_parts(payload):
    got = run([(0, 1, payload, 1, 0)], Delivery(policy=STORE_AND_FORWARD))
    to_nic = parts("send_call", "pio_write", "firmware_start", "pci_read_start")
    to_nic += parts(pci_read_per_byte=payload)
    control = parts("firmware_start", "link_start", link_per_byte=128)
    on_link = parts("firmware_start", "link_start", link_per_byte=payload)
    to_host = parts("firmware_start", "pci_write_start", pci_write_per_byte=payload)
    seen = parts("firmware_finish", "pio_read")
    assert latencies(got) == [to_nic + control + on_link + to_host + seen]


@pytest.mark.parametrize("payload", [1000, 8192])
def test_cut_through_with_a_minpulse_of_the_payload_hides_no_more_than_the_control_message(payload):
    delivery = Delivery(
        minpulse_send=payload, minpulse_receive=payload, send_buffers=1, receive_buffers=1
    )
    got = run([(0, 1, payload, 1, 0)], delivery)
    to_nic = parts("send_call", "pio_write", "firmware_start", "pci_read_start")
    to_nic += parts(pci_read_per_byte=payload)
    on_link = parts("firmware_start", "link_start", link_per_byte=payload)
    to_host = parts("firmware_start", "pci_write_start", pci_write_per_byte=payload)
    assert latencies(got) == [to_nic + on_link + to_host + parts("firmware_finish", "pio_read")]


def test_a_payload_waits_on_the_link_until_the_receiver_has_accepted_it():
    accept = 10 * COSTS["link_start"]
    got = run([(0, 1, 200, 1, 0)], Delivery(policy=STORE_AND_FORWARD), firmware_accept=accept)
    to_nic = parts("send_call", "pio_write", "firmware_start", "pci_read_start")
    to_nic += parts(pci_read_per_byte=200)
    control = parts("firmware_start", "link_start", link_per_byte=128)
    posted = parts("firmware_start") + accept  # netTx of the payload is begun meanwhile
    to_host = parts("firmware_start", "pci_write_start", pci_write_per_byte=200)
    want = to_nic + control + posted + parts(link_per_byte=200)
    assert latencies(got) == [want + to_host + parts("firmware_finish", "pio_read")]


@pytest.mark.parametrize("policy", [STORE_AND_FORWARD, CUT_THROUGH])
@pytest.mark.parametrize(("network", "hops"), [(pair(), 0), (crossbar(3), 1), (trunk(1, 2), 2)])
def test_a_control_message_alone_takes_the_sum_of_its_parts(policy, network, hops):
    got = run([(0, 1, 0, 1, 0)], Delivery(policy=policy), network)
    want = parts("send_call", "pio_write", "firmware_start", "firmware_start", "link_start")
    want += parts("firmware_finish", "pio_read", link_per_byte=128, switch_hop=hops)
    assert latencies(got) == [want]
    assert len(spans(got, HOST_TX, 0)) == len(spans(got, HOST_RCV, 1)) == 0


def test_logging_costs_each_transfer_that_the_firmware_starts_on_the_way():
    runs = [(0, 1, 500, 1, 0)]
    plain, logged = (
        latencies(run(runs, Delivery(policy=STORE_AND_FORWARD, logging=logging)))[0]
        for logging in (False, True)
    )
    # HOST_TX, NET_TX of the control message and of the payload, HOST_RCV; POST_PAYLOAD is hidden
    assert logged - plain == 4 * COSTS["firmware_log"]


# --- worked by hand ---------------------------------------------------------------------------


def test_eager_pulses_follow_the_source():
    # Only bytes cost: hostTx from 0, 2 ps a byte. The control message 0 .. 128, link 1 ps a byte.
    # Then 64 bytes are there; they leave by 192, when 32 more are there, then 16, 8, 4; with
    # minpulse 3 the 4 bytes that leave by 252 leave 2, so the next is at 4 * 2 ps later: 4 bytes.
    got = run([(0, 1, 140, 1, 0)], Delivery(minpulse_send=3, minpulse_receive=300), base=BARE)
    assert spans(got, HOST_TX, 0) == [(0, 280, 140)]
    assert spans(got, NET_TX, 0, control=1) == [(0, 128, 128)]
    assert spans(got, NET_TX, 0) == [
        (128, 192, 64),
        (192, 224, 32),
        (224, 240, 16),
        (240, 248, 8),
        (248, 252, 4),
        (256, 260, 4),  # 128 bytes by 256 are 4 more than the 124 that were taken by 252
        (264, 268, 4),
        (272, 276, 4),
        (280, 284, 4),
    ]
    assert spans(got, NET_RCV, 1) == [(128, 284, 140)]
    assert spans(got, HOST_RCV, 1) == [(284, 564, 140)]


def test_pulses_that_are_not_eager_take_no_more_than_minpulse():
    delivery = Delivery(eager=False, minpulse_send=50, minpulse_receive=300)
    got = run([(0, 1, 140, 1, 0)], delivery, base=BARE)
    # 64 bytes are there at 128; then more than 50 at 2 * 101 = 202; then all, at 280: 40
    assert spans(got, NET_TX, 0) == [(128, 178, 50), (202, 252, 50), (280, 320, 40)]


def test_a_pci_transfer_slows_the_link_down_and_a_byte_under_way_is_moved_again():
    # m = 2, p = 3: the share is 2 * 3 // 1 = 6 while hostTx runs, and after it a port's, 4.
    costs = {name: 3 for name in COSTS if name.startswith("pci_") and "per_byte" in name}
    got = run([(0, 1, 41, 1, 0)], base=BARE, nic_memory_per_byte=2, **costs)
    assert spans(got, HOST_TX, 0) == [(0, 123, 41)]
    # 20 bytes by 120 and one under way at 123; 108 bytes at 4 ps follow
    assert spans(got, NET_TX, 0, control=1) == [(0, 123 + 108 * 4, 128)]


def test_an_engine_has_one_of_the_two_ports_of_nic_memory():
    # m = 2, p = 11: what hostTx leaves would do for 2 * 11 // 9 = 2 ps a byte, a port takes 4.
    costs = {name: 11 for name in COSTS if name.startswith("pci_") and "per_byte" in name}
    got = run([(0, 1, 40, 1, 0)], base=BARE, nic_memory_per_byte=2, **costs)
    assert spans(got, NET_TX, 0, control=1) == [(0, 128 * 4, 128)]


def test_a_copy_and_a_dma_transfer_slow_each_other_down():
    # The control message is in at 10 + 128. hostTx has ended long before; hostRcv and the copy
    # compete: the copy moves 160 bytes by 160 and 40 more at 3, hostRcv moves 20 at 4 instead of 2
    costs = {
        "block_copy_contended_per_byte": 3,
        "pci_write_contended_per_byte": 4,
        "send_call": 10,
    }
    delivery = Delivery(minpulse_receive=300)
    got = run([(0, 1, 22, 1, 0)], delivery, copies=[(1, 200)], base=BARE, **costs)
    assert spans(got, NET_RCV, 1) == [(138, 160, 22)]
    assert spans(got, HOST_RCV, 1) == [(160, 160 + 22 * 4, 22)]
    # 29 bytes by 247, one under way at 248, 11 bytes at 1 from then on
    assert got.nodes[1].counters.copy_end == 248 + 11
    assert got.messages[0].read == 259  # the CPU reads when its copy has ended


def test_senders_wait_for_a_link_in_the_order_in_which_they_came():
    got = run([(0, 3, 0, 1, 0), (1, 3, 0, 1, 0), (2, 3, 0, 1, 0)], network=crossbar(4), base=BARE)
    assert [spans(got, NET_TX, sender, control=1) for sender in range(3)] == [
        [(0, 128, 128)],
        [(0, 256, 128)],
        [(0, 384, 128)],
    ]


def test_a_waiting_packet_blocks_one_behind_it_that_could_go():
    # From 10 on node 1 holds the trunk while it waits for the link to 3; node 0 would go to 4.
    network = trunk(2, 3)
    each = [BARE | {"send_call": call} for call in (20, 10, 0, 0, 0)]
    runs = [(2, 3, 0, 1, 0), (1, 3, 0, 1, 0), (0, 4, 0, 1, 0)]
    got = simulate(each, Delivery(), network.paths, network.hops, network.links, runs)
    assert {m.sender: m.read for m in got.messages} == {2: 128, 1: 256, 0: 384}


def test_a_full_receive_ring_stalls_the_link_until_the_host_has_read():
    delivery = Delivery(receive_ring=1, send_ring=8)
    got = run([(0, 1, 0, 3, 0)], delivery, base=BARE, pio_read=1000)
    assert [m.read for m in got.messages] == [1128, 2256, 3384]
    assert got.nodes[1].counters.peak_receive_ring == 1


def test_a_gap_counts_from_start_to_start_and_only_within_its_run():
    got = run([(0, 1, 0, 3, 700), (0, 1, 0, 1, 900)], base=BARE)
    assert [m.posted for m in got.messages] == [0, 700, 1400, 1400]


# --- watchdog ---------------------------------------------------------------------------------


def test_a_packet_longer_than_the_watchdog_is_dropped_and_the_next_goes_on():
    got = run([(0, 1, 0, 2, 0)], base=BARE, link_watchdog=100)
    assert rows_of(got.messages) == [(0, 0, 1, 0, 0, -1), (0, 1, 1, 0, 0, -1)]
    assert spans(got, NET_TX, 0, control=1) == [(0, 100, 100), (100, 200, 100)]
    assert spans(got, NET_RCV, 1, control=1) == []
    assert spans(got, FIRMWARE, 1, task=POST_CONTROL) == [(0, 0, 0)]


def test_a_packet_that_breaks_gives_its_place_back_without_telling_the_host():
    delivery = Delivery(minpulse_send=1, minpulse_receive=1, receive_ring=1, receive_buffers=1)
    got = run([(0, 1, 300, 1, 0), (0, 1, 0, 1, 0)], delivery, base=BARE, link_watchdog=200)
    # From 128 on 64 bytes arrive by 192 and 8 more by 200. HostRcv takes 2 bytes at 130, 4 at
    # 134, 8, 16, and 32 at 190, which takes until 254; then the second message is let in.
    assert [m[5] for m in rows_of(got.messages)] == [-1, 254 + 128]
    assert got.nodes[1].counters.broken == 1
    assert len(spans(got, FIRMWARE, 1, task=COMPLETE)) == 2
    (_, end, count), *more = spans(got, NET_RCV, 1)
    assert (end, count, more) == (200, 72, [])
    assert [count for _, _, count in spans(got, HOST_RCV, 1)] == [2, 4, 8, 16, 32]


def test_a_watchdog_that_expires_with_the_last_byte_is_too_late():
    got = run([(0, 1, 0, 1, 0)], base=BARE, link_watchdog=128)
    assert [m.read for m in got.messages] == [128]


def test_a_link_watchdog_frees_those_who_wait():
    # The receive ring of node 2 is full for long: node 0 stalls with the link to it held.
    delivery = Delivery(receive_ring=1)
    runs = [(0, 2, 0, 2, 0), (1, 2, 0, 1, 300)]
    got = run(runs, delivery, crossbar(3), base=BARE, link_watchdog=500, pio_read=10_000)
    reads = {(m.sender, m.packet): m.read for m in got.messages}
    assert reads[0, 0] == 10_128
    # Sender 1 queued for the link at 0, before the second packet of sender 0, and stalls at 128;
    # it holds its own link since 0, so its watchdog expires first.
    assert (reads[1, 0], reads[0, 1]) == (-1, -1)
    ends = {r["node"]: r["end"] for r in got.log if r["engine"] == NET_TX and not r["bytes"]}
    assert ends == {1: 500, 0: 628}


# --- any run ----------------------------------------------------------------------------------


def simulated(scenario):
    network = scenario.network
    return simulate(
        scenario.costs,
        scenario.delivery,
        network.paths,
        network.hops,
        network.links,
        scenario.runs,
        scenario.copies,
    )


@given(scenarios())
def test_the_twin_keeps_the_rules_of_conservation(scenario):
    got = simulated(scenario)
    check_all(scenario, rows_of(got.messages), got.log)
    for node in got.nodes:
        assert node.counters.peak_send_buffers <= scenario.delivery.send_buffers
        assert node.counters.peak_receive_buffers <= scenario.delivery.receive_buffers
        assert [node.ring, node.outgoing, node.incoming, node.seen, node.tx] == [
            [],
            [],
            [],
            [],
            None,
        ]


@share(3)
@given(unhurried_scenarios())
def test_without_a_watchdog_nothing_is_lost(scenario):
    assert all(m.read >= 0 for m in simulated(scenario).messages)


@share(3)
@given(unhurried_scenarios())
def test_logging_moves_the_same_bytes(scenario):
    """It may change when, and so how they are cut, but not what arrives."""
    scenario.delivery = replace(scenario.delivery, logging=False)
    plain = simulated(scenario)
    scenario.delivery = replace(scenario.delivery, logging=True)
    logged = simulated(scenario)
    assert sorted(r[:4] for r in rows_of(plain.messages)) == sorted(
        r[:4] for r in rows_of(logged.messages)
    )
    tasks = {r["task"] for r in logged.log}
    assert POST_PAYLOAD in tasks or all(run[2] == 0 for run in scenario.runs)
