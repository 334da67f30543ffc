"""What the kernel brought for a packet stays on the NIC until that packet comes again.

A NIC that drops what misses relies on its sender to bring it again (miNI, IV.A).  Where the lines
of two packets share a set, each could find for ever that the other's has just taken its place.  So
one packet at a time, the one that was dropped first, has the promise that its line stays.
"""

from __future__ import annotations

from nicscope.kernel.decorators import routine, step
from nicscope.nic.handles import EXPORT_HANDLE, PROCESS_HANDLE, is_handle
from nicscope.nic.ports.handle_cache import keep_handle, let_handle_go
from nicscope.nic.ports.holding import unblock
from nicscope.nic.ports.layout import NOBODY, THREAD
from nicscope.nic.ports.lookup import key_of
from nicscope.nic.ports.streams import is_reliable, stream_to
from nicscope.nic.translate.holding import hold_key, release_key
from nicscope.nic.translate.nodes import translation_of


@step
def note_dropped(nics, d, sender, sequence):
    """Note since when the packet of ``sender`` that is dropped waits for what it misses."""
    stream = stream_to(nics.ports, d, sender)
    if stream.waits != sequence:
        stream.waits = sequence
        stream.since = nics.tally[0].now


@step
def is_promised(nics, n):
    """Whether some packet has the promise."""
    return nics.ports.nodes[n].promised_to != NOBODY


@step
def patience(nics):
    """Ps after which a promise ends: as long as for a dead peer."""
    rules = nics.ports.rules[0]
    return (rules.most_retries + 1) * rules.time_out


@routine
def promise(nics, n, sender, space, page, now):
    """Promise the packet of ``sender`` that ``page`` stays, or the handle; whether that is so.

    It is not if another one has the promise.
    """
    ports = nics.ports
    serving = ports.nodes[n]
    if ports.rules[0].service != THREAD:
        return False
    if not is_reliable(ports, stream_to(ports, n, sender)):
        return False
    if is_promised(nics, n) and serving.promised_to != sender:
        return False
    serving.promised_to = sender
    serving.promised_until = now + patience(nics)
    if space == PROCESS_HANDLE:
        serving.promised_process = page
        keep_handle(nics, n, space, page)
    elif is_handle(space):
        serving.promised_export = page
        keep_handle(nics, n, space, page)
    else:
        _let_page_go(nics, n)
        serving.promised_space = space
        serving.promised_page = page
        nic, host, book = translation_of(ports.translations, n)
        hold_key(nic, host, book, space, page, key_of(nics, n, space, page))
    return True


@routine
def make_turn(nics, n, sender):
    """End the promise if the packet of ``sender`` was dropped before the one that has it."""
    ports = nics.ports
    holder = ports.nodes[n].promised_to
    if holder == NOBODY:
        return
    if stream_to(ports, n, sender).since < stream_to(ports, n, holder).since:
        withdraw(nics, n)


@step
def keep_promise(nics, n, sender, sequence):
    """A packet of ``sender`` is wholly in: if it has the promise, that has been kept."""
    ports = nics.ports
    if ports.nodes[n].promised_to == sender and stream_to(ports, n, sender).waits == sequence:
        withdraw(nics, n)


@routine
def withdraw(nics, n):
    """End the promise: whoever waits for its places may have them.  Whether there was one."""
    serving = nics.ports.nodes[n]
    if serving.promised_to == NOBODY:
        return False
    serving.promised_to = NOBODY
    _let_page_go(nics, n)
    if serving.promised_process != NOBODY:
        let_handle_go(nics, n, PROCESS_HANDLE, serving.promised_process)
        serving.promised_process = NOBODY
    if serving.promised_export != NOBODY:
        let_handle_go(nics, n, EXPORT_HANDLE, serving.promised_export)
        serving.promised_export = NOBODY
    if serving.use_blocked > 0:
        unblock(nics, n)
    return True


@step
def _let_page_go(nics, n):
    serving = nics.ports.nodes[n]
    space, page = serving.promised_space, serving.promised_page
    if page != NOBODY:
        nic, host, book = translation_of(nics.ports.translations, n)
        release_key(nic, host, book, space, page, key_of(nics, n, space, page))
        serving.promised_page = NOBODY
