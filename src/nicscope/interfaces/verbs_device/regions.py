"""Protection domains, memory regions and their keys, memory windows, device memory."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.drivers.simulate.ports.thread import is_busy, is_moving
from nicscope.drivers.simulate.records import GIVE_UP, REGISTER
from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.calls import Refused, Region, Window
from nicscope.interfaces.verbs_device.fabric import (
    KEY_BITS,
    OWN_PORT,
    PATIENCE_PS,
    SPACE,
    AddressSpace,
)
from nicscope.interfaces.work_queues import deregister, store
from nicscope.kernel.decorators import kernel
from nicscope.kernel.entry import bound
from nicscope.nic.ports.layout import DONE, REMOTE_ONLY
from nicscope.nic.ports.regions import invalidate_region_entry

if TYPE_CHECKING:
    from collections.abc import Iterable

TAGS = 1 << KEY_BITS
DM_BYTES = 1 << 18  # assumed: what cards have that offer device memory
LONGEST_TRANSFERS_PS = 10**11  # of what the NIC has in its rings, which is some milliseconds
NO_DOMAIN = 0
ADDRESS = 8  # in a Record: of a REGISTER, how that ended


class Registered(msgspec.Struct):
    """The kernel's record of a memory region or window."""

    row: int
    key: int
    domain: int = NO_DOMAIN
    address: int = 0  # of its memory
    length: int = 0
    base: int = 0  # the address that names its first byte
    access: int = 0
    is_pinned: bool = False
    dm: int = 0


@kernel
def _forget_region(machine: Any, n: int, row: int) -> None:
    invalidate_region_entry(machine, n, row)


class Protection(AddressSpace):
    """Protection domains, memory regions, memory windows and device memory."""

    on_demand: bool

    def _begin_protection(self) -> None:
        self._rows: Any = self._ports.work.regions[self._node]
        self._unused_rows = list(range(len(self._rows) - 1, 0, -1))
        self._tags = [0] * len(self._rows)
        self._regions: dict[int, Registered] = {}  # by row
        self._shifts: dict[int, int] = {}  # by lkey: bytes from IOVA to virtual address
        self._windows: dict[int, Registered] = {}
        self._domains: set[int] = set()
        self._domains_made = 0
        self._dms: dict[int, tuple[int, int]] = {}  # address and length
        self._dms_made = self._dm_used = 0
        self._deregister = bound(deregister, self._machine)
        self._forget_region = bound(_forget_region, self._machine)

    # Domains.

    def open_pd(self) -> int:
        """Create a protection domain."""
        self._system_call()
        self._domains_made += 1
        self._domains.add(self._domains_made)
        return self._domains_made

    def close_pd(self, pd: int) -> None:
        """Destroy a protection domain; errors: EINVAL, EBUSY while regions or windows are in it."""
        if pd not in self._domains:
            raise Refused(errno.EINVAL)
        if any(each.domain == pd for each in (*self._regions.values(), *self._windows.values())):
            raise Refused(errno.EBUSY)
        self._system_call()
        self._domains.remove(pd)

    # Regions.

    def register(
        self,
        pd: int,
        address: int,
        length: int,
        iova: int,
        access: int,
        implicit: bool = False,
        dm: int = 0,
    ) -> Region:
        """Register memory for queue pairs of ``pd``, addressed from ``iova`` on.

        With ``dm`` it is memory of the device, and ``address`` an offset in that.  Errors: EINVAL,
        EFAULT where nothing is mapped, ENOMEM, EOPNOTSUPP for paging that the design lacks.
        """
        if pd not in self._domains:
            raise Refused(errno.EINVAL)
        if access & calls.ON_DEMAND and not self.on_demand:
            raise Refused(errno.EOPNOTSUPP)
        if access & (calls.REMOTE_WRITE | calls.REMOTE_ATOMIC) and not access & calls.LOCAL_WRITE:
            raise Refused(errno.EINVAL)
        begin = address
        if dm:
            begin, length = self._within_dm(dm, address, length)
        elif implicit:
            if not access & calls.ON_DEMAND:
                raise Refused(errno.EINVAL)
            begin, iova, length = 0, 0, self._room
        row = self._take_row()
        made = Registered(row, self._next_key(row), pd, begin, length, iova, access, dm=dm)
        try:
            self._pin(made)
        except Refused:
            self._unused_rows.append(row)
            raise
        self._regions[row] = made
        self._write_region(made)
        return Region(row, made.key, made.key)

    def _pin(self, made: Registered) -> None:
        """Pin a region's pages for the NIC, unless they are paged on demand."""
        if made.access & calls.ON_DEMAND or not made.length:
            self._system_call()
            return
        if not self.mapped(made.address, made.length):
            raise Refused(errno.EFAULT)
        ended = self._ask(REGISTER, peer=OWN_PORT, address=made.address, payload=made.length)
        if ended is None or ended[ADDRESS] != DONE:
            raise Refused(errno.ENOMEM)
        made.is_pinned = True
        self._pinned.note(made.address, made.length, 1)

    def _unpin(self, made: Registered) -> None:
        if not made.is_pinned:
            self._system_call()
            return
        made.is_pinned = False
        gone = self._pinned.note(made.address, made.length, -1)
        self._ask(GIVE_UP, peer=OWN_PORT, address=made.address, payload=made.length)
        self._deregister(self._node, OWN_PORT, made.address, made.length)
        for page in gone:
            if page in self._ghosts:
                self._unmap_page(page)

    def _await_transfers(self, made: Registered) -> None:
        """Wait until transfers in flight under a region's former rights have ended.

        What begins from now on finds the region as it is now.
        """
        if not made.length or not is_busy(self._machine, self._node):
            return
        first, last = (at // self._page for at in (made.address, made.address + made.length - 1))
        latest = self._sim_process.now + LONGEST_TRANSFERS_PS
        where = self._machine, self._memory.state, self._node, SPACE, first, last
        while is_moving(*where) and self._sim_process.now < latest:
            self._wait_for(PATIENCE_PS)

    def _write_region(self, made: Registered) -> None:
        """Write a region's current attributes into the NIC's region table."""
        record = self._rows[made.row]
        self._shifts[made.key] = shift = made.address - made.base
        store(
            record,
            key=made.key,
            space=SPACE,
            domain=made.domain,
            address=made.base,
            length=made.length,
            rights=calls.rights_of_region(made.access),
            port=0,
            shift=shift,
            kind=0,
            of=0,
        )

    def reregister(
        self,
        handle: int,
        pd: int | None = None,
        address: int | None = None,
        length: int | None = None,
        access: int | None = None,
        iova: int | None = None,
    ) -> None:
        """Change a region, addressed from ``iova`` or its own address on; its keys stay.

        Errors: as ``register``; then nothing has changed.
        """
        old = self._region(handle)
        if pd is not None and pd not in self._domains:
            raise Refused(errno.EINVAL)
        new = msgspec.structs.replace(
            old,
            domain=old.domain if pd is None else pd,
            access=old.access if access is None else access,
            is_pinned=False,
        )
        if new.access & calls.REMOTE_WRITE and not new.access & calls.LOCAL_WRITE:
            raise Refused(errno.EINVAL)
        if address is not None and length is not None:
            new.address, new.length = address, length
            new.base = address if iova is None else iova
        self._pin(new)
        self._flush_posted()
        self._regions[handle] = new
        self._write_region(new)
        self._await_transfers(old)
        self._forget_region(self._node, handle)
        if old.is_pinned:
            self._unpin(old)

    def deregister(self, handle: int) -> None:
        """Deregister a region.  Errors: EINVAL."""
        region = self._region(handle)
        self._flush_posted()
        self._rows[handle]["key"] = 0
        self._await_transfers(region)
        self._forget_region(self._node, handle)
        self._unpin(region)
        del self._regions[handle], self._shifts[region.key]
        self._unused_rows.append(handle)

    def prefetch(
        self,
        pd: int,
        advice: int,
        flush: bool,  # noqa: ARG002 - what is asked for has happened in any case
        pieces: Iterable[tuple[int, int, int]],
    ) -> None:
        """Fault in pages of on-demand regions; each piece: lkey, address, length.

        Errors: EPERM for a key that is not of ``pd`` or not to be written, EFAULT beyond it.
        """
        wanted = []
        for lkey, address, length in pieces:
            region = self._regions.get(lkey >> KEY_BITS)
            if region is None or region.key != lkey or region.domain != pd:
                raise Refused(errno.EPERM)
            if advice == 1 and not region.access & calls.LOCAL_WRITE:
                raise Refused(errno.EPERM)
            if not region.base <= address <= region.base + region.length - length:
                raise Refused(errno.EFAULT)
            wanted.append((address + region.address - region.base, length))
        self._system_call()
        for address, length in wanted:
            if length and not self.mapped(address, length):
                raise Refused(errno.EFAULT)
            if advice == 2 or not length:
                continue
            for page in range(address // self._page, (address + length - 1) // self._page + 1):
                self._memory.bring(self._node, SPACE, page * self._page, write=advice == 1)

    def _region(self, handle: int) -> Registered:
        found = self._regions.get(handle)
        if found is None:
            raise Refused(errno.EINVAL)
        return found

    def _take_row(self) -> int:
        if not self._unused_rows:
            raise Refused(errno.ENOMEM)
        return self._unused_rows.pop()

    def _next_key(self, row: int) -> int:
        """A key that the row has not had for long and that no adjacent row uses."""
        self._tags[row] = (self._tags[row] + 5) % TAGS
        return row << KEY_BITS | self._tags[row]

    # Memory of the device.

    def alloc_dm(self, length: int) -> int:
        """Allocate device memory; its handle.  Errors: ENOMEM, EINVAL for more than there is."""
        if length > DM_BYTES or length < 0:
            raise Refused(errno.EINVAL)
        if self._dm_used + length > DM_BYTES:
            raise Refused(errno.ENOMEM)
        self._system_call()
        self._dm_used += length
        self._dms_made += 1
        self._dms[self._dms_made] = self.map(max(length, 1)), length
        return self._dms_made

    def free_dm(self, handle: int) -> None:
        """Free device memory; errors: EINVAL; EBUSY while it is registered."""
        address, length = self._dm(handle)
        if any(each.dm == handle for each in self._regions.values()):
            raise Refused(errno.EBUSY)
        del self._dms[handle]
        self._dm_used -= length
        self.unmap(address, max(length, 1))

    def dm_read(self, handle: int, offset: int, length: int) -> bytes:
        """Load words of device memory into the CPU.  Errors: EFAULT, EINVAL."""
        address = self._dm_words(handle, offset, length)
        return self.read(address, length)

    def dm_write(self, handle: int, offset: int, data: bytes) -> None:
        """Store words from the CPU into device memory."""
        self.write(self._dm_words(handle, offset, len(data)), data)

    def _dm_words(self, handle: int, offset: int, length: int) -> int:
        address, room = self._dm(handle)
        if offset < 0 or offset + length > room:
            raise Refused(errno.EFAULT)
        if offset % 4 or length % 4:
            raise Refused(errno.EINVAL)
        self._spend(int(self._machine.costs[self._node]["pio_write"]) if length else 0)
        return address + offset

    def _dm(self, handle: int) -> tuple[int, int]:
        if handle not in self._dms:
            raise Refused(errno.EINVAL)
        return self._dms[handle]

    def _within_dm(self, handle: int, offset: int, length: int) -> tuple[int, int]:
        address, room = self._dm(handle)
        if offset < 0 or length < 0 or offset + length > room:
            raise Refused(errno.EINVAL)
        return address + offset, length

    # Windows.

    def alloc_mw(self, pd: int, kind: int) -> Window:
        """Create a memory window, which is unbound until a work request binds it."""
        if pd not in self._domains or kind not in (1, 2):
            raise Refused(errno.EINVAL)
        self._system_call()
        row = self._take_row()
        made = Registered(row, self._next_key(row), pd)
        self._windows[row] = made
        record = self._rows[row]
        record["key"], record["kind"], record["domain"] = 0, kind, pd
        record["rights"] = REMOTE_ONLY
        return Window(row, made.key)

    def free_mw(self, handle: int) -> None:
        """Destroy a memory window.  Errors: EINVAL."""
        if self._windows.pop(handle, None) is None:
            raise Refused(errno.EINVAL)
        self._system_call()
        record = self._rows[handle]
        self._tags[handle] = int(record["key"]) % TAGS or self._tags[handle]
        record["key"] = record["kind"] = 0
        self._forget_region(self._node, handle)
        self._unused_rows.append(handle)
