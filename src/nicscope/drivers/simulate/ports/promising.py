"""What the kernel brought for a packet stays on the NIC until that packet comes again.

A NIC that drops what misses relies on its sender to bring it again (miNI, IV.A).  Where the lines of
two packets share a set, each could find for ever that the other's has just taken its line's place.
So one packet at a time, the one that was dropped first, has the promise that its line stays.
"""

from __future__ import annotations

from nicscope.drivers.simulate.ports.holding import unblock
from nicscope.drivers.simulate.ports.state import THREAD
from nicscope.drivers.simulate.ports.translating import key_of
from nicscope.drivers.translation.cluster import translation_of
from nicscope.drivers.translation.holding import hold_key, release_key
from nicscope.jit import routine, step
from nicscope.nic.ports import NOBODY


@step
def note_dropped(machine, d, sender, sequence):
    """Note since when the packet of ``sender`` that is dropped waits for what it misses."""
    peer = machine.ports.peers[d, sender]
    if peer.waits != sequence:
        peer.waits = sequence
        peer.since = machine.tally[0].now


@step
def is_promised(machine, n):
    """Whether some packet has the promise."""
    return machine.ports.nodes[n].promised_to != NOBODY


@step
def patience(machine):
    """Ps after which a promise ends: as long as for a dead peer."""
    rules = machine.ports.rules[0]
    return (rules.most_retries + 1) * rules.time_out


@routine
def promise(machine, n, sender, space, page, now):
    """Promise the packet of ``sender`` that ``page`` stays; whether that is so.

    It is not if another one has the promise.
    """
    serving = machine.ports.nodes[n]
    key = key_of(machine, n, space, page)
    if machine.ports.rules[0].service != THREAD or is_promised(machine, n) or key < 0:
        return False
    nic, host, book = translation_of(machine.ports.translations, n)
    hold_key(nic, host, book, space, page, key)
    serving.promised_to = sender
    serving.promised_space = space
    serving.promised_page = page
    serving.promised_until = now + patience(machine)
    return True


@routine
def make_turn(machine, n, sender):
    """End the promise if the packet of ``sender`` was dropped before the one that has it."""
    holder = machine.ports.nodes[n].promised_to
    if holder == NOBODY:
        return
    peers = machine.ports.peers
    if holder == sender or peers[n, sender].since < peers[n, holder].since:
        withdraw(machine, n)


@routine
def withdraw(machine, n):
    """End the promise: whoever waits for the line may have it.  Whether there was one."""
    serving = machine.ports.nodes[n]
    if serving.promised_to == NOBODY:
        return False
    space, page = serving.promised_space, serving.promised_page
    nic, host, book = translation_of(machine.ports.translations, n)
    release_key(nic, host, book, space, page, key_of(machine, n, space, page))
    serving.promised_to = NOBODY
    if serving.use_blocked > 0:
        unblock(machine, n)
    return True
