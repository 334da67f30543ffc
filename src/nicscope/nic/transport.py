"""Reliability firmware: go-back-n between two NICs, sender and receiver."""

import numpy as np

from nicscope.kernel.decorators import step

MOST_WINDOW = 2**15  # packets
LAST = 0xFFFFFFFF  # sequence number; behind it comes 0
HALF = 2**31

# A sequence number that is none.
NONE = -1

# What a time-out leads to.
NOTHING = 0
RETRANSMIT = 1
DEAD = 2

TRANSPORT = np.dtype(
    [
        ("dead", "i8"),  # 1: the peer was given up
        # sender; oldest <= turn <= fresh <= numbered, and numbered - oldest <= window
        ("oldest", "i8"),  # the first that is not acknowledged
        ("turn", "i8"),  # the next to be sent, again or for the first time
        ("fresh", "i8"),  # the next to be sent for the first time
        ("numbered", "i8"),  # the next number to be given
        ("retries", "i8"),  # time-outs since the last progress
        ("retransmit_at", "i8"),  # ps, the driver's: when ``time_out`` is due
        # receiver; confirmed <= wanted
        ("confirmed", "i8"),  # the next to be confirmed: what acknowledgements say
        ("wanted", "i8"),  # the next to be accepted
        ("ack_due", "i8"),  # 1: the peer should hear of ``confirmed``
        ("ack_at", "i8"),  # ps, the driver's: when a packet of its own should carry it
        # for the observer, as sender
        ("sent", "i8"),  # for the first time
        ("resent", "i8"),
        ("time_outs", "i8"),
        ("forgotten", "i8"),  # not acknowledged when the link ended
        # and as receiver
        ("duplicates", "i8"),
        ("gaps", "i8"),  # reliable: packets turned away; unreliable: packets missed
        ("refused", "i8"),
        ("acks", "i8"),  # that were due and went into a header
    ],
    align=True,
)


@step
def distance(here, there):
    """Sequence numbers from ``there`` to ``here``, from -2**31 to 2**31 - 1: they wrap."""
    return ((here - there + HALF) & LAST) - HALF


@step
def window_open(link, window):
    """Whether one more packet may be numbered with up to ``window`` unacknowledged."""
    return link.dead == 0 and distance(link.numbered, link.oldest) < window


@step
def number_next(link):
    """The sequence number of one more packet, which now waits to be sent."""
    sequence = link.numbered
    link.numbered = (sequence + 1) & LAST
    return sequence


@step
def next_to_send(link):
    """The sequence number that goes out next, again or for the first time, or ``NONE``."""
    if link.dead == 1 or link.turn == link.numbered:
        return NONE
    return link.turn


@step
def note_sent(link, sequence):
    """Count ``sequence``, from ``next_to_send``, as sent: its transfer begins now."""
    if sequence == link.fresh:
        link.sent += 1
        link.fresh = (sequence + 1) & LAST
    else:
        link.resent += 1
    if sequence == link.turn:
        link.turn = (sequence + 1) & LAST


@step
def number_unreliable(link):
    """The sequence number of a packet that is sent now, once, and forgotten."""
    sequence = number_next(link)
    link.sent += 1
    link.oldest = link.numbered
    link.turn = link.numbered
    link.fresh = link.numbered
    return sequence


@step
def is_outstanding(link):
    """Whether packets wait for an acknowledgement, so that a deadline must be kept."""
    return link.dead == 0 and link.oldest != link.fresh


@step
def take_acknowledgement(link, ack):
    """How many packets ``ack`` newly acknowledges: all before the number it names.

    One that is stale, or names what was never sent, changes nothing.
    """
    progress = distance(ack, link.oldest)
    if link.dead == 1 or progress <= 0 or progress > distance(link.fresh, link.oldest):
        return 0
    if distance(link.turn, ack) < 0:
        link.turn = ack
    link.oldest = ack
    link.retries = 0
    return progress


@step
def time_out(link, most_retries):
    """Handle a time-out: ``RETRANSMIT`` all from the oldest packet on, or the peer is ``DEAD``.

    A peer is dead without progress for more than ``most_retries`` time-outs in a row.  ``NOTHING``
    if nothing is outstanding.
    """
    if not is_outstanding(link):
        return NOTHING
    link.time_outs += 1
    link.retries += 1
    if link.retries > most_retries:
        link.dead = 1
        return DEAD
    link.turn = link.oldest
    return RETRANSMIT


@step
def end_link(link):
    """End the link: unacknowledged packets are dropped, and nothing follows them."""
    link.forgotten += distance(link.numbered, link.oldest)
    link.dead = 1
    link.oldest = link.numbered
    link.turn = link.numbered
    link.fresh = link.numbered
    link.retries = 0


@step
def revive(link):
    """Revive a dead link over a new route: retransmit from the oldest packet on."""
    link.dead = 0
    link.retries = 0
    link.turn = link.oldest
    link.ack_due = 1


# What the receiver makes of a packet.
WANTED = 0
DUPLICATE = 1  # had before, or overtaken
GAP = 2  # one before it is missing


@step
def check_sequence(link, sequence):
    """Check a header's sequence number: ``WANTED`` (and accepted), ``DUPLICATE`` or ``GAP``."""
    if link.dead == 1:
        return GAP
    ahead = distance(sequence, link.wanted)
    if ahead > 0:
        link.gaps += 1
        return GAP
    if ahead < 0:
        link.duplicates += 1
        link.ack_due = 1  # or a lost acknowledgement would block the peer for ever
        return DUPLICATE
    link.wanted = (sequence + 1) & LAST
    return WANTED


@step
def is_accepted(link, sequence):
    """Whether ``sequence`` was judged ``WANTED`` and neither it nor one before it refused."""
    return distance(sequence, link.confirmed) >= 0 and distance(sequence, link.wanted) < 0


@step
def may_acknowledge(link, sequence):
    """Whether ``sequence``, complete, is the next to be acknowledged: none before it is missing."""
    return link.dead == 0 and sequence == link.confirmed and sequence != link.wanted


@step
def is_acknowledged(link, sequence):
    """Whether ``sequence`` has been confirmed."""
    return distance(sequence, link.confirmed) < 0


@step
def confirm(link, sequence, asks):
    """Confirm ``sequence``; ``asks``: 1 if the peer waits for the acknowledgement.

    ``may_acknowledge`` said that it may be.
    """
    link.confirmed = (sequence + 1) & LAST
    link.ack_due |= asks


@step
def refuse(link, sequence):
    """Revoke the acceptance of ``sequence`` and of all after it; whether there was one."""
    if not is_accepted(link, sequence):
        return False
    link.wanted = sequence
    link.refused += 1
    return True


@step
def ack_is_due(link):
    """Whether an acknowledgement to the peer is due."""
    return link.dead == 0 and link.ack_due == 1


@step
def take_ack(link):
    """The acknowledgement for a header that leaves now, the next number expected; none is due."""
    link.acks += link.ack_due
    link.ack_due = 0
    return link.confirmed


@step
def check_unreliable_sequence(link, sequence):
    """``WANTED`` or ``DUPLICATE``, of a packet wholly and correctly in, where loss is allowed.

    What comes is in order, each packet once at most; those jumped over are counted as gaps.
    """
    ahead = distance(sequence, link.wanted)
    if ahead < 0:
        link.duplicates += 1
        return DUPLICATE
    link.gaps += ahead
    link.wanted = (sequence + 1) & LAST
    link.confirmed = link.wanted
    return WANTED
