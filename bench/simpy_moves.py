"""What moves in ``simpy_delivery``: bytes whose rate changes on their way, and packets of them."""

from __future__ import annotations

import simpy
from simpy.events import URGENT

BYTES_SUFFICE = 0  # the first of the kinds of what happens at one time


class At(simpy.Event):
    """A timeout with a place among those at the same time."""

    def __init__(self, env, delay, priority):
        self.env, self.callbacks, self._ok, self._value = env, [], True, None  # as Timeout does
        env.schedule(self, priority, delay)


def soon(event):
    """Fire ``event`` before any timeout at this time."""
    event._ok, event._value = True, None
    event.env.schedule(event, URGENT)


class Move:
    """Bytes on their way; ``over`` is called once the last is there."""

    __slots__ = ("base", "env", "over", "priority", "rate", "rest", "since", "sleeper", "timeout")

    def __init__(self, env, begins, byte_count, rate, over, sleeper, priority):
        self.env, self.over, self.sleeper, self.priority = env, over, sleeper, priority
        self.since, self.base, self.rest, self.rate = begins, 0, byte_count, rate
        self.start_timeout()

    def start_timeout(self):
        ends = self.since + self.rest * self.rate
        self.timeout = At(self.env, ends - self.env.now, self.priority)
        self.timeout.callbacks.append(self.fired)

    def fired(self, timeout):
        if timeout is self.timeout:  # else the rate has changed since
            self.base += self.rest
            self.rest = 0
            self.over(self)

    def moved(self):
        passed = self.env.now - self.since
        return self.base + (min(self.rest, passed // self.rate) if passed > 0 else 0)

    def when(self, target):
        return self.since + (target - self.base) * self.rate

    def set_rate(self, rate):
        if rate != self.rate:
            whole = self.moved() - self.base
            self.base += whole
            self.rest -= whole
            self.since = max(self.since, self.env.now)
            self.rate = rate
            self.start_timeout()
            if self.sleeper is not None:
                self.sleeper.set_alarm()


class Packet:
    """One message on its way, as both NICs see it."""

    __slots__ = (
        "control_sent",
        "drained",
        "flow",
        "landed",
        "number",
        "payload",
        "posted",
        "receive_posted",
        "receiver",
        "sender",
        "sent",
        "source",
        "taken_by_host",
        "taken_by_net",
    )

    def __init__(self, sender, receiver, number, payload, posted):
        self.sender, self.receiver, self.number = sender, receiver, number
        self.payload, self.posted = payload, posted
        self.control_sent = self.receive_posted = False
        self.source = self.flow = None  # moves into the sender's NIC and into the receiver's
        self.taken_by_net = self.taken_by_host = 0
        self.sent = self.landed = self.drained = 0  # by moves that are over

    def in_sender(self):
        return self.source.moved() if self.source is not None else 0

    def in_receiver(self):
        return self.landed + (self.flow.moved() if self.flow is not None else 0)
