"""Go-back-n as one would first write it: lists of packets, numbers that never wrap.

Written from ``docs/reliability.md`` alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field


def unwrapped(number, near):
    """The count that a 32-bit ``number`` stands for, so that it lies next to ``near``."""
    return min((number + (near // 2**32 + k) * 2**32 for k in (-1, 0, 1)), key=closeness(near))


def closeness(near):
    # Exactly half way counts as behind.
    return lambda count: (abs(count - near), count)


@dataclass
class Link:
    """What a node knows of one peer."""

    first: int = 0
    dead: bool = False
    acknowledged: int = 0  # packets
    to_send: list[int] = field(default_factory=list)  # places of packets, in order
    outstanding: list[int] = field(default_factory=list)  # sent, not acknowledged
    numbered: int = 0
    retries: int = 0
    confirmed: int = 0
    accepted: list[int] = field(default_factory=list)  # behind those confirmed, in order
    due: bool = False
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, what, by=1):
        self.counts[what] = self.counts.get(what, 0) + by

    def sequence(self, place):
        return (self.first + place) % 2**32

    def place(self, sequence, near):
        return unwrapped(sequence, self.first + near) - self.first

    # --- sender

    def window_open(self, window):
        return not self.dead and self.numbered - self.acknowledged < window

    def number_next(self):
        place = self.numbered
        self.numbered += 1
        self.to_send.append(place)
        return self.sequence(place)

    def next_to_send(self):
        return None if self.dead or not self.to_send else self.sequence(self.to_send[0])

    def note_sent(self):
        place = self.to_send.pop(0)
        if place in self.outstanding:
            self.count("resent")
        else:
            self.outstanding.append(place)
            self.count("sent")

    def number_unreliable(self):
        sequence = self.sequence(self.numbered)
        self.numbered += 1
        self.acknowledged = self.numbered
        self.to_send, self.outstanding = [], []
        self.count("sent")
        return sequence

    def is_outstanding(self):
        return not self.dead and bool(self.outstanding)

    def take_acknowledgement(self, ack):
        before = self.place(ack, self.acknowledged)
        if self.dead or before - 1 not in self.outstanding:
            return 0
        done = before - self.acknowledged
        self.acknowledged = before
        self.outstanding = [place for place in self.outstanding if place >= before]
        self.to_send = [place for place in self.to_send if place >= before]
        self.retries = 0
        return done

    def time_out(self, most_retries):
        if not self.is_outstanding():
            return "nothing"
        self.count("time_outs")
        self.retries += 1
        if self.retries > most_retries:
            self.dead = True
            return "dead"
        self.go_back()
        return "resend"

    def go_back(self):
        self.to_send = list(range(self.acknowledged, self.numbered))

    # --- receiver

    def wanted(self):
        return self.confirmed + len(self.accepted)

    def check_sequence(self, sequence):
        if self.dead:
            return "gap"
        place = self.place(sequence, self.wanted())
        if place > self.wanted():
            self.count("gaps")
            return "gap"
        if place < self.wanted():
            self.count("duplicates")
            self.due = True
            return "duplicate"
        self.accepted.append(place)
        return "wanted"

    def is_accepted(self, sequence):
        return self.place(sequence, self.confirmed) in self.accepted

    def may_acknowledge(self, sequence):
        first = self.accepted[:1] == [self.place(sequence, self.confirmed)]
        return first and not self.dead

    def confirm(self, asks=True):
        self.accepted.pop(0)
        self.confirmed += 1
        self.due |= asks

    def refuse(self, sequence):
        if not self.is_accepted(sequence):
            return False
        place = self.place(sequence, self.confirmed)
        self.accepted = [other for other in self.accepted if other < place]
        self.count("refused")
        return True

    def ack_is_due(self):
        return self.due and not self.dead

    def take_ack(self):
        self.count("acks", int(self.due))
        self.due = False
        return self.sequence(self.confirmed)

    def check_unreliable_sequence(self, sequence):
        place = self.place(sequence, self.wanted())
        if place < self.wanted():
            self.count("duplicates")
            return "duplicate"
        self.count("gaps", place - self.wanted())
        self.confirmed, self.accepted = place + 1, []
        return "wanted"

    # --- connection

    def revive(self):
        self.dead = False
        self.retries = 0
        self.due = True
        self.go_back()

    def end_link(self):
        self.count("forgotten", self.numbered - self.acknowledged)
        self.acknowledged = self.numbered
        self.to_send, self.outstanding = [], []
        self.dead = True
        self.retries = 0
