"""A verbs program's memory and registrations, slow and obvious: pages are byte arrays in a dict."""

from __future__ import annotations

import errno
from typing import NamedTuple

PAGE = 4096
LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC, BINDABLE = 1, 2, 4, 8, 16
ON_DEMAND = 64


class Memory:
    def __init__(self, refused):
        self.refused = refused  # what is raised, with the system's number
        self.pages = {}  # page number: bytearray, or None where it was never touched
        self.next = 0x10000000

    def map(self, length, huge=False):
        unit = (2 << 20) if huge else PAGE
        self.next = -(-self.next // unit) * unit
        address = self.next
        self.next += -(-length // unit) * unit + PAGE
        for page in range(address // PAGE, -(-(address + length) // PAGE)):
            self.pages[page] = None
        return address

    def unmap(self, address, length):
        for page in range(address // PAGE, -(-(address + length) // PAGE)):
            self.pages.pop(page, None)

    def drop(self, address, length):
        for page in range(address // PAGE, -(-(address + length) // PAGE)):
            if page not in self.pages:
                raise self.refused(errno.ENOMEM)
            self.pages[page] = None

    def mapped(self, address, length):
        return all(p in self.pages for p in range(address // PAGE, -(-(address + length) // PAGE)))

    def page(self, number):
        if number not in self.pages:
            raise self.refused(errno.EFAULT)
        if self.pages[number] is None:
            self.pages[number] = bytearray(PAGE)
        return self.pages[number]

    def read(self, address, length):
        return read_of(self.page, address, length)

    def write(self, address, data):
        write_of(self.page, address, data)


def read_of(page, address, length):
    """Bytes by way of ``page``, which gives a page's array by its number."""
    found = bytearray()
    while length:
        at = address % PAGE
        some = min(length, PAGE - at)
        found += page(address // PAGE)[at : at + some]
        address, length = address + some, length - some
    return bytes(found)


def write_of(page, address, data):
    while data:
        at = address % PAGE
        some = min(len(data), PAGE - at)
        page(address // PAGE)[at : at + some] = data[:some]
        address, data = address + some, data[some:]


class Place(NamedTuple):
    """What a key leads to."""

    region: Mr
    start: int  # in the addresses that requests use
    length: int
    access: int
    pd: int
    window: bool


class Mr:
    """A region: of pinned pages, of pages on demand, or of the NIC's memory."""

    def __init__(self, device, pd, address, length, iova, access, implicit, dm):
        self.device, self.pd, self.access, self.implicit = device, pd, access, implicit
        self.dm = device.dms[dm] if dm else None
        self.dm_at = address if dm else 0
        self.place(address, length, iova)

    def place(self, address, length, iova):
        if self.dm is not None:
            self.address, self.length, self.iova, self.pins = iova, length, iova, None
            return
        on_demand = bool(self.access & ON_DEMAND)
        if not self.implicit and not on_demand and not self.device.mapped(address, length):
            raise self.device.calls.Refused(errno.EFAULT)
        pages = range(address // PAGE, -(-(address + length) // PAGE))
        pins = None if on_demand else {n: self.device.memory.page(n) for n in pages}
        self.address, self.length, self.iova, self.pins = address, length, iova, pins

    def array_of(self, number):
        return self.device.memory.page(number) if self.pins is None else self.pins[number]

    def read(self, address, length):
        if self.dm is not None:
            at = address - self.iova + self.dm_at
            return bytes(self.dm[at : at + length])
        return read_of(self.array_of, address - self.iova + self.address, length)

    def write(self, address, data):
        if self.dm is not None:
            at = address - self.iova + self.dm_at
            self.dm[at : at + len(data)] = data
            return
        write_of(self.array_of, address - self.iova + self.address, data)
