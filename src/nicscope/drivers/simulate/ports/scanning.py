"""The driver's scan for pages that are pinned beyond the high water (miNI, IV.B.2).

It runs at long intervals, and only while there is something to unpin: lines that have left the NIC.
The host is not told of that; but the driver writes the NIC's entries itself, and what it overwrites
has left (the paper leaves open how it knows).
"""

from __future__ import annotations

import numpy as np

from nicscope.clock import NEVER
from nicscope.drivers.simulate.ports.calls import steal_cpu
from nicscope.drivers.simulate.ports.timers import fire_by
from nicscope.host.calls import carry_out
from nicscope.kernel.decorators import distant, step
from nicscope.nic.translate.handle import unpin_surplus
from nicscope.nic.translate.nodes import translation_of


@distant
def scan_pins(machine, n, now):
    """Unpin what is pinned beyond the high water, if a scan is due; see to the next one."""
    serving = machine.ports.nodes[n]
    if serving.scan_at <= now:
        serving.scan_at = NEVER
        _unpin(machine, n, now)
    see_to_scan(machine, n, now)


@step
def see_to_scan(machine, n, now):
    """Have a scan come if there is something to unpin, which a request may have kept until now."""
    serving = machine.ports.nodes[n]
    if serving.scan_at == NEVER and _has_surplus(machine, n):
        period = machine.ports.rules[0].scan_period
        serving.scan_at = (now // period + 1) * period
        fire_by(machine, n, serving.scan_at)


@step
def _unpin(machine, n, now):
    """As much as there is room to write down at a time, until all is done."""
    _, host, book = translation_of(machine.ports.translations, n)
    unpinned = np.int64(0)
    while _has_surplus(machine, n):
        before = book.counts[0].unpins
        unpin_surplus(host, book)
        carry_out(machine, n, 0)
        if book.counts[0].unpins == before:
            break
        unpinned += book.counts[0].unpins - before
    if unpinned > 0:
        steal_cpu(machine, n, unpinned * machine.ports.costs[n].unpin, now)


@step
def _has_surplus(machine, n):
    _, host, book = translation_of(machine.ports.translations, n)
    mark = book.orders[0].high_water
    return mark >= 0 and book.counts[0].pinned_pages > mark and host.lines.counts[1] > 0
