"""Registered memory as the NIC knows it: who may use it, and where it is in the host's memory.

The first of the two translations; the second, to the NIC's own address, is by tags.
"""

from __future__ import annotations

from nicscope.kernel.decorators import kernel, step
from nicscope.nic.vimsg.codes import Status
from nicscope.nic.vimsg.layout import FIRST_PAGE, NOWHERE, PAGE

PROTECTION_ERROR = int(Status.VIP_STATUS_PROTECTION_ERROR)


@step
def is_permitted(vimsg, handle, address, length, tag, right):
    """Whether a VI with ``tag`` may use that stretch; ``right``: also one from afar, or 0."""
    region = vimsg.regions[handle % vimsg.regions.size]
    if handle <= 0 or region.handle != handle or region.tag != tag:
        return False
    if region.rights & right != right or address < region.address:
        return False
    # A sum could overflow, as a program may write any address into a descriptor.
    return length <= region.length and address - region.address <= region.length - length


@kernel
def permits(vimsg, handle, address, length, tag, right):
    """The same, for who checks before anything is posted."""
    return is_permitted(vimsg, handle, address, length, tag, right)


@step
def protection(vimsg, request, tag):
    """PROTECTION_ERROR if a VI with ``tag`` may not use every segment of the request; else 0."""
    for s in range(vimsg.requests[request].segments):
        one = vimsg.segments[request, s]
        if not is_permitted(vimsg, one.handle, one.address, one.length, tag, 0):
            return PROTECTION_ERROR
    return 0


@step
def add_runs(vimsg, found, address, count):
    """Runs of that stretch behind ``found`` others; how many there are then.

    A run is one stretch of host memory; a registered stretch has a frame for every page.
    """
    begin = found
    if count <= 0:
        vimsg.runs[found].address = 0
        vimsg.runs[found].count = 0
        vimsg.runs[found].page = address // PAGE - FIRST_PAGE
        found += 1
    while count > 0:
        within = address % PAGE
        part = min(PAGE - within, count)
        frame = vimsg.frames[address // PAGE - FIRST_PAGE]
        place = frame * PAGE + within
        last = vimsg.runs[max(found - 1, 0)]
        if found > begin and last.address + last.count == place:
            last.count += part
        else:
            vimsg.runs[found].address = place
            vimsg.runs[found].count = part
            vimsg.runs[found].page = address // PAGE - FIRST_PAGE
            found += 1
        address += part
        count -= part
    for run in range(begin, found):
        vimsg.runs[run].first = 1 if run == begin else 0
    return found


@kernel
def runs_of_stretch(vimsg, address, count):
    """How many of ``vimsg.runs`` that registered stretch of virtual memory takes."""
    return add_runs(vimsg, 0, address, count)


@kernel
def runs_of_request(vimsg, request, count):
    """Likewise the first ``count`` bytes of a request's segments; ``NOWHERE``: whole segments.

    Segments to which nothing is brought are left out.
    """
    found = 0
    for s in range(vimsg.requests[request].segments):
        one = vimsg.segments[request, s]
        if count == NOWHERE:
            found = add_runs(vimsg, found, one.address, one.length)
        elif count > 0:
            part = min(one.length, count)
            if part > 0:
                found = add_runs(vimsg, found, one.address, part)
            count -= part
    return found


@kernel
def add_region(vimsg, handle, address, length, tag, rights):
    """Whether the region could be noted under ``handle``; another that is in use has its place."""
    region = vimsg.regions[handle % vimsg.regions.size]
    if region.handle != 0:
        return False
    region.handle = handle
    region.address = address
    region.length = length
    region.tag = tag
    region.rights = rights
    return True
