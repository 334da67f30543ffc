"""Transfers of the four bands, the engines' use, bandwidth over time, and NIC memory."""

import numpy as np
import pytest

from flow_samples import answered
from nicscope.config.design import CONTROL_BYTES, POLICIES, Delivery
from nicscope.drivers.simulate.observe import LOG, Engine, Task
from nicscope.studies.flow import LOG_RECORD_BYTES, memory_account
from nicscope.studies.flow_parts import (
    BANDS,
    band_transfers,
    bandwidth_steps,
    ends_seen,
    engine_use,
    is_moving,
    megabytes_per_second,
    processor_use,
    receptions,
)

ENGINES = (Engine.HOST_TX, Engine.NET_TX, Engine.NET_RCV, Engine.HOST_RCV)


def log_of(*rows):
    """Rows (packet, node, engine, control, start, end, bytes) of sender 0."""
    return np.array(
        [(packet, 0, node, engine, -1, *rest, 0) for packet, node, engine, *rest in rows], LOG
    )


# A control message and a payload in two pieces, whose receives were posted before they came.
TWO_PIECES = log_of(
    (0, 1, Engine.NET_RCV, 1, 0, 14, 128),
    (0, 0, Engine.NET_TX, 1, 10, 14, 128),
    (0, 0, Engine.NET_TX, 0, 18, 30, 300),
    (0, 1, Engine.NET_RCV, 0, 20, 50, 700),
    (0, 0, Engine.NET_TX, 0, 40, 50, 400),
)


@pytest.mark.requirement("TR-60")
@pytest.mark.parametrize("policy", POLICIES)
def test_every_transfer_is_listed_with_packet_engine_times_and_bytes(policy):
    found = answered(policy=policy, count=5)

    listed = found.transfers
    for band, engine in enumerate(ENGINES):
        logged = found.log[found.log["engine"] == engine]
        mine = listed[listed["band"] == band]
        fields = ["node", "sender", "packet", "control", "start", "end", "bytes"]
        assert sorted(map(tuple, mine[fields].tolist())) == sorted(
            map(tuple, logged[fields].tolist())
        )
        payloads = mine[mine["control"] == 0]
        assert payloads["bytes"].sum() == 5 * 8192
    assert (np.diff(listed["start"]) >= 0).all()


def acting(*spans):
    """Actions of node 0's processor."""
    return [(-1, 0, Engine.FIRMWARE, 0, begin, end, 0) for begin, end in spans]


def test_firmware_sees_an_end_amid_an_action_when_that_is_over_and_any_other_at_once():
    actions = acting((10, 20), (20, 30), (50, 55))
    ends = {9: 9, 10: 10, 11: 20, 20: 20, 25: 30, 30: 30, 40: 40, 54: 55, 60: 60}
    rows = [(0, 0, Engine.NET_TX, 0, 0, end, 1) for end in ends]
    other = (0, 1, Engine.HOST_RCV, 0, 0, 15, 1)  # of a node whose processor does nothing
    log = log_of(*actions, *rows, other)

    seen = ends_seen(log)[len(actions) :].tolist()

    assert seen == [*ends.values(), 15]
    listed = band_transfers(log)
    of_node = listed[listed["node"] == 0]
    assert dict(zip(of_node["end"].tolist(), of_node["seen"].tolist(), strict=True)) == ends


@pytest.mark.requirement("TR-60")
def test_the_log_sees_some_ends_late_and_none_early_or_later_than_an_action_takes():
    found = answered(policy="adaptive", count=20)
    late = found.transfers["seen"] - found.transfers["end"]
    actions = found.log[found.log["engine"] == Engine.FIRMWARE]

    assert late.min() == 0
    assert 0 < late.max() <= (actions["end"] - actions["start"]).max()


def test_a_receive_moves_only_while_its_sender_does():
    transfers = band_transfers(TWO_PIECES)

    receives = transfers[transfers["band"] == BANDS.index("netRcv")]
    assert receives[["start", "moving", "end", "busy"]].tolist() == [
        (0, 10, 14, 4),
        (20, 20, 50, 10 + 10),
    ]
    assert receptions(transfers)[["control", "start", "end", "bytes"]].tolist() == [
        (1, 10, 14, 128),
        (0, 20, 30, 300),
        (0, 40, 50, 400),
    ]


def test_a_receive_that_nobody_sends_to_never_moves():
    transfers = band_transfers(log_of((0, 1, Engine.NET_RCV, 1, 0, 14, 0)))

    assert not is_moving(transfers).any()
    assert not len(receptions(transfers))


def test_engines_are_in_use_for_their_transfers_share_of_the_span():
    uses = {use.band: use for use in engine_use(band_transfers(TWO_PIECES), 0, 100)}

    sends, receives = uses["netTx"], uses["netRcv"]
    assert (sends.node, receives.node) == (0, 1)
    assert (sends.transfers, sends.control_transfers, sends.byte_count) == (3, 1, 828)
    assert (receives.transfers, receives.control_transfers) == (2, 1)
    assert (sends.mean_bytes, receives.mean_bytes) == (350, 700)
    assert (sends.utilisation, receives.utilisation) == (0.26, 0.24)
    assert sends.mb_per_s == megabytes_per_second(828, 26)
    # Engines that did nothing yet are left out.
    early = engine_use(band_transfers(TWO_PIECES), 0, 20)
    assert [(use.band, use.transfers) for use in early] == [("netTx", 1), ("netRcv", 1)]


@pytest.mark.parametrize("policy", POLICIES)
def test_use_of_simulated_engines_agrees_with_the_log(policy):
    found = answered(policy=policy, count=5)

    for use in found.engines:
        if use.band not in BANDS:
            continue
        mine = found.log[found.log["engine"] == ENGINES[BANDS.index(use.band)]]
        assert set(mine["node"]) == {use.node}
        assert use.transfers == len(mine)
        assert use.byte_count == mine["bytes"].sum()
        if use.band != "netRcv":
            assert use.busy_ps == (mine["end"] - mine["start"]).sum()
        assert 0 < use.utilisation <= 1
    receives, sends = (
        next(use for use in found.engines if use.band == band) for band in ("netRcv", "netTx")
    )
    assert receives.control_transfers == sends.control_transfers == 5
    assert receives.byte_count == sends.byte_count == 5 * (8192 + CONTROL_BYTES)
    assert receives.busy_ps <= sends.busy_ps


def test_processors_are_busy_for_what_they_do():
    log = np.array(
        [
            (0, 0, 0, Engine.FIRMWARE, Task.HOST_TX, 0, 0, 4, 0, 0),
            (0, 0, 0, Engine.FIRMWARE, Task.NET_TX, 0, 6, 8, 0, 0),
            (0, 0, 1, Engine.HOST_READ, -1, 0, 20, 23, 0, 0),
        ],
        LOG,
    )

    uses = processor_use(log, 0, 60)

    assert [(use.band, use.node, use.transfers, use.busy_ps) for use in uses] == [
        ("firmware", 0, 2, 6),
        ("host CPU", 1, 1, 3),
    ]
    assert uses[0].utilisation == 0.1


@pytest.mark.requirement("TR-62")
def test_each_step_of_bandwidth_counts_the_idle_time_before_it():
    curves = {curve.band: curve for curve in bandwidth_steps(band_transfers(TWO_PIECES))}

    sends = curves["netTx"]
    assert sends.edges.tolist() == [18, 30, 50]
    assert sends.mb_per_s.tolist() == [300e6 / 12, 400e6 / 20]
    assert curves["netRcv"].edges.tolist() == [20, 50]


@pytest.mark.requirement("TR-62")
@pytest.mark.parametrize("policy", POLICIES)
def test_bandwidth_over_time_holds_every_payload_byte(policy):
    found = answered(policy=policy, count=5)

    curves = bandwidth_steps(found.transfers)

    assert [curve.band for curve in curves] == list(BANDS)
    for curve in curves:
        areas = curve.mb_per_s * np.diff(curve.edges) / 1e6
        assert areas.sum() == pytest.approx(5 * 8192, rel=1e-12)
        assert (np.diff(curve.edges) > 0).all()


def test_messages_without_payload_have_steps_of_their_control_messages():
    found = answered(payload="0", count=3)

    curves = {curve.band: curve for curve in bandwidth_steps(found.transfers)}

    assert sorted(curves) == ["netRcv", "netTx"]
    assert curves["netTx"].byte_counts.tolist() == [128] * 3


def test_rings_and_buffers_take_their_number_times_their_size():
    nic = Delivery(send_ring=3, receive_ring=5, send_buffers=2, receive_buffers=7, max_payload=4096)

    account = {held.what: held.byte_count for held in memory_account(nic, table_entries=10)}

    assert account == {
        "send ring": 3 * 128,
        "receive ring": 5 * 128,
        "send buffers": 2 * 4096,
        "receive buffers": 7 * 4096,
        "incoming payload table": 80,
    }


@pytest.mark.requirement("TR-60")
def test_a_log_takes_a_record_for_every_transfer_of_the_nic_and_some_bandwidth():
    silent, logging = answered(count=40), answered(count=40, logging=True)

    for role, node in (("sender", 0), ("receiver", 1)):
        *others, log = logging.memory[role]
        assert others == silent.memory[role]
        assert log.what == "log of transfers"
        assert log.number == (logging.transfers["node"] == node).sum() > 0
        assert log.byte_count == log.number * LOG_RECORD_BYTES
    assert LOG_RECORD_BYTES == 16
    assert logging.bandwidth < silent.bandwidth
