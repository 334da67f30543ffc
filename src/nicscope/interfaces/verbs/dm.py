"""Device memory: memory on the NIC."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs.base import Fields, Number, PyverbsCM, PyverbsObject, error, refusal
from nicscope.interfaces.verbs.mem_alloc import as_bytes

if TYPE_CHECKING:
    from nicscope.interfaces.verbs.device import Context

WORD = 4  # bytes: what programmed I/O moves at once


class AllocDmAttr(Fields, PyverbsObject):
    """Size and alignment of the device memory to allocate."""

    SHOWN = ("length", "log_align_req", "comp_mask")
    length, log_align_req, comp_mask = Number(), Number(), Number()

    def __init__(self, length: int, log_align_req: int = 0, comp_mask: int = 0) -> None:
        self.length, self.log_align_req, self.comp_mask = length, log_align_req, comp_mask


class DM(PyverbsCM):
    """An allocation of device memory."""

    ORDER = ("dm_mrs",)

    def __init__(
        self, context: Context, dm_attr: AllocDmAttr | None = None, handle: int | None = None
    ) -> None:
        self.context = context
        self._imported = handle is not None
        if handle is not None:
            found = context.things.get(("dm", int(handle)))
            if found is None:
                raise error(f"Failed to import DM with handle {handle}", errno.EINVAL)
            self.handle, self.size = int(handle), int(found)
        else:
            wanted = dm_attr if dm_attr is not None else AllocDmAttr(0)
            self._allocate(wanted)
        self._opened()
        context._add_dependent(self, "dms")

    def _allocate(self, wanted: AllocDmAttr) -> None:
        most = self.context.world.facts.dm_bytes
        failed = (
            f"Failed to allocate device memory of size {wanted.length}. Max available size {most}."
        )
        if not most:
            raise error(failed, errno.EOPNOTSUPP)
        if wanted.comp_mask or not 0 < wanted.length <= most:
            raise error(failed, errno.EINVAL)
        with refusal(failed):
            self.handle = int(self.context.world.device.alloc_dm(wanted.length))
        self.size = wanted.length
        self.context.things[("dm", self.handle)] = self.size

    def _release(self) -> None:
        if not self._imported:
            self.context.things.pop(("dm", self.handle), None)
            self.context.world.device.free_dm(self.handle)

    def unimport(self) -> None:
        """Release an imported handle."""
        self._closed = True

    def export_dmabuf_fd(self) -> int:
        """A dma-buf file descriptor for the memory, whose bytes stay on the NIC."""
        return os.memfd_create("dm")

    def _check(self, offset: int, length: int, failed: str) -> None:
        if offset < 0 or length < 0 or offset + length > self.size:
            raise error(failed, errno.EFAULT)
        if offset % WORD or length % WORD:
            raise error(failed, errno.EINVAL)

    def copy_to_dm(self, dm_offset: int, data: Any, length: int) -> None:
        """Store words from the CPU into device memory."""
        at, size = int(dm_offset), int(length)
        self._check(at, size, "Failed to copy to dm")
        with refusal("Failed to copy to dm"):
            self.context.world.device.dm_write(self.handle, at, as_bytes(data, size))

    def copy_from_dm(self, dm_offset: int, length: int) -> bytes:
        """Load words of device memory into the CPU."""
        at, size = int(dm_offset), int(length)
        self._check(at, size, "Failed to copy from dm")
        with refusal("Failed to copy from dm"):
            found: bytes = self.context.world.device.dm_read(self.handle, at, size)
            return found
