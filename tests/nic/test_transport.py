"""Go-back-n, event by event: against lists, and in the situations that it is there for."""

import pytest
from fresh_links import new_links
from hypothesis import example, given
from hypothesis import strategies as st

from nicscope.nic import transport
from nicscope.nic.transport import (
    DEAD,
    DUPLICATE,
    GAP,
    LAST,
    NONE,
    NOTHING,
    RETRANSMIT,
    WANTED,
)
from oracle.transport import Link

VERDICTS = {"wanted": WANTED, "duplicate": DUPLICATE, "gap": GAP}
OUTCOMES = {"nothing": NOTHING, "resend": RETRANSMIT, "dead": DEAD}
COUNTERS = ("sent", "resent", "time_outs", "forgotten", "duplicates", "gaps", "refused", "acks")

FIRSTS = st.sampled_from([0, 5, 2**31 - 3, LAST - 4, LAST])
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["number", "send", "check_sequence", "acknowledge", "time_out", "confirm", "refuse"] * 2
            + ["take_ack", "revive", "end_link"]
        ),
        st.integers(-6, 6),
    ),
    max_size=60,
)


@pytest.mark.requirement("SH-5")
@given(FIRSTS, EVENTS, st.integers(1, 6), st.integers(0, 2))
@example(0, [*[("number", 0)] * 3, *[("send", 0)] * 2, ("time_out", 0), ("send", 0)], 4, 2)
@example(0, [("number", 0), ("send", 0), *[("time_out", 0)] * 3], 4, 2)
@example(0, [("number", 0), ("acknowledge", 1), ("send", 0), ("acknowledge", 1)], 4, 2)
def test_any_events_lead_where_lists_lead(first, events, window, most_retries):
    link, model = new_links(2, first)[0, 1], Link(first)
    for event, shift in events:
        happen(event, shift, link, model, window, most_retries)
        look(link, model, window)


def happen(event, shift, link, model, window, most_retries):
    """``event`` at both, with a number ``shift`` away from one that would fit."""
    wanted = model.sequence(model.wanted() + shift)
    if event == "number":
        if model.window_open(window):
            assert transport.number_next(link) == model.number_next()
    elif event == "send":
        sequence = model.next_to_send()
        assert transport.next_to_send(link) == (NONE if sequence is None else sequence)
        if sequence is not None:
            transport.note_sent(link, sequence)
            model.note_sent()
    elif event == "acknowledge":
        ack = model.sequence(model.acknowledged + shift)
        assert transport.take_acknowledgement(link, ack) == model.take_acknowledgement(ack)
    elif event == "time_out":
        expected = model.time_out(most_retries)
        assert transport.time_out(link, most_retries) == OUTCOMES[expected]
    elif event == "check_sequence":
        near = model.sequence(model.wanted() + max(0, shift - 4) - max(0, -shift - 3))
        assert transport.check_sequence(link, near) == VERDICTS[model.check_sequence(near)]
    elif event == "confirm":
        sequence = model.sequence(model.confirmed + max(0, shift - 4))
        may = model.may_acknowledge(sequence)
        assert bool(transport.may_acknowledge(link, sequence)) == may
        if may:
            asks = shift % 2
            transport.confirm(link, sequence, asks)
            model.confirm(asks == 1)
    elif event == "refuse":
        assert bool(transport.refuse(link, wanted)) == model.refuse(wanted)
    elif event == "take_ack":
        assert transport.take_ack(link) == model.take_ack()
    elif event == "revive":
        transport.revive(link)
        model.revive()
    elif event == "end_link":
        transport.end_link(link)
        model.end_link()


def look(link, model, window):
    """All that can be asked is answered alike."""
    assert bool(transport.window_open(link, window)) == model.window_open(window)
    assert bool(transport.is_outstanding(link)) == model.is_outstanding()
    sequence = model.next_to_send()
    assert transport.next_to_send(link) == (NONE if sequence is None else sequence)
    assert bool(transport.ack_is_due(link)) == model.ack_is_due()
    for shift in range(-2, 4):
        sequence = model.sequence(model.confirmed + shift)
        assert bool(transport.is_accepted(link, sequence)) == model.is_accepted(sequence)
        assert bool(transport.may_acknowledge(link, sequence)) == model.may_acknowledge(sequence)
    assert {name: int(link[name]) for name in COUNTERS} == {
        name: model.counts.get(name, 0) for name in COUNTERS
    }


@given(FIRSTS, st.lists(st.integers(-3, 5), max_size=40))
def test_an_unreliable_receiver_takes_in_order_what_comes(first, shifts):
    link, model = new_links(2, first)[0, 1], Link(first)
    for shift in shifts:
        sequence = model.sequence(model.wanted() + shift)
        expected = VERDICTS[model.check_unreliable_sequence(sequence)]
        assert transport.check_unreliable_sequence(link, sequence) == expected
        assert transport.number_unreliable(link) == model.number_unreliable()
        look(link, model, 4)


def sent(link, count):
    """The numbers of ``count`` packets that are numbered and sent."""
    numbers = [int(transport.number_next(link)) for _ in range(count)]
    for number in numbers:
        transport.note_sent(link, number)
    return numbers


def test_a_full_window_opens_with_the_oldest_acknowledgement():
    link = new_links(2, LAST)[0, 1]
    numbers = sent(link, 3)

    assert numbers == [LAST, 0, 1]
    assert not transport.window_open(link, 3)
    assert transport.take_acknowledgement(link, 0) == 1
    assert transport.window_open(link, 3)


@pytest.mark.parametrize(
    "ack", [0, 2**31, 2**31 + 7, 4, LAST], ids=["stale", "half way", "far", "not sent", "before"]
)
def test_an_acknowledgement_of_what_was_never_sent_changes_nothing(ack):
    link = new_links(2)[0, 1]
    sent(link, 3)
    transport.number_next(link)  # 3 waits, not sent
    before = link.tobytes()

    assert transport.take_acknowledgement(link, ack) == 0
    assert link.tobytes() == before


@pytest.mark.requirement("SH-5", "MI-6")
def test_after_a_time_out_all_go_out_again_in_order_and_new_ones_behind():
    link = new_links(2)[0, 1]
    sent(link, 3)
    transport.number_next(link)

    assert transport.time_out(link, 5) == RETRANSMIT

    again = []
    while (number := int(transport.next_to_send(link))) != NONE:
        again.append(number)
        transport.note_sent(link, number)
    assert again == [0, 1, 2, 3]
    assert (link["sent"], link["resent"]) == (4, 3)


def test_an_acknowledgement_during_resending_skips_what_it_covers():
    link = new_links(2)[0, 1]
    sent(link, 4)
    transport.time_out(link, 5)
    transport.note_sent(link, 0)

    assert transport.take_acknowledgement(link, 3) == 3
    assert transport.next_to_send(link) == 3


def test_a_peer_without_progress_is_dead_after_the_retries_and_one_with_progress_is_not():
    link = new_links(2)[0, 1]
    sent(link, 2)

    outcomes = [transport.time_out(link, 1)]
    transport.note_sent(link, 0)
    transport.take_acknowledgement(link, 1)
    outcomes += [transport.time_out(link, 1) for _ in range(3)]

    assert outcomes == [RETRANSMIT, RETRANSMIT, DEAD, NOTHING]
    assert transport.next_to_send(link) == NONE
    assert not transport.window_open(link, 100)
    assert not transport.is_outstanding(link)
    assert transport.take_acknowledgement(link, 2) == 0


def test_a_duplicate_is_acknowledged_again_and_a_gap_is_not():
    link = new_links(2)[0, 1]
    transport.check_sequence(link, 0)
    transport.confirm(link, 0, 1)
    assert transport.take_ack(link) == 1

    assert transport.check_sequence(link, 2) == GAP
    assert not transport.ack_is_due(link)
    assert transport.check_sequence(link, 0) == DUPLICATE
    assert transport.ack_is_due(link)


def test_what_comes_behind_a_refused_packet_is_never_confirmed():
    link = new_links(2)[0, 1]
    assert [transport.check_sequence(link, number) for number in (0, 1, 2)] == [WANTED] * 3

    assert transport.refuse(link, 1)  # while 0 is still on its way in

    assert transport.may_acknowledge(link, 0)
    transport.confirm(link, 0, 1)
    assert transport.check_sequence(link, 1) == WANTED  # it was sent again
    assert not transport.may_acknowledge(link, 2)
    transport.confirm(link, 1, 1)
    assert not transport.may_acknowledge(link, 2)  # the one from before
    assert transport.take_ack(link) == 2


def test_a_refusal_counts_once():
    link = new_links(2)[0, 1]
    transport.check_sequence(link, 0)

    assert [bool(transport.refuse(link, 0)) for _ in range(2)] == [True, False]
    assert link["refused"] == 1
