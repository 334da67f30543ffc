"""NIC memory that delivery takes, byte by byte."""

from __future__ import annotations

import pytest

from flow_samples import answered
from nicscope.config.delivery import Delivery
from nicscope.studies.flow.report import LOG_RECORD_BYTES, memory_account


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
def test_the_log_holds_a_record_for_every_transfer_of_the_nic_if_it_is_on():
    silent, logging = answered(count=4), answered(count=4, logging=True)

    for role, node in (("sender", 0), ("receiver", 1)):
        *others, log = logging.memory[role]
        assert others == silent.memory[role]
        assert log.what == "log of transfers"
        assert log.number == (logging.transfers["node"] == node).sum() > 0
        assert log.byte_count == log.number * LOG_RECORD_BYTES


@pytest.mark.requirement("TR-60")
def test_logging_costs_bandwidth():
    silent, logging = answered(count=40), answered(count=40, logging=True)

    assert logging.bandwidth < silent.bandwidth


def test_a_record_of_the_log_has_whole_words():
    assert LOG_RECORD_BYTES == 16
