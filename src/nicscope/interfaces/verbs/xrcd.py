"""XRC domains: queue pairs of one deliver into its shared receive queues across processes."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.base import Fields, Number, PyverbsCM, PyverbsObject, error, refusal

if TYPE_CHECKING:
    from nicscope.interfaces.verbs.device import Context

NEEDED = e.IBV_XRCD_INIT_ATTR_FD | e.IBV_XRCD_INIT_ATTR_OFLAGS


class XRCDInitAttr(Fields, PyverbsObject):
    """The file that identifies an XRC domain, and the flags to open it with."""

    SHOWN = ("comp_mask", "oflags", "fd")
    comp_mask, oflags, fd = Number(), Number(), Number()

    def __init__(self, comp_mask: int, oflags: int, fd: int) -> None:
        self.comp_mask, self.oflags, self.fd = comp_mask, oflags, fd


class XRCD(PyverbsCM):
    """An XRC domain."""

    ORDER = ("qps", "srqs")

    def __init__(self, context: Context, init_attr: XRCDInitAttr) -> None:
        failed = "Failed to allocate XRCD"
        world = context.world
        if e.IBV_QPT_XRC_SEND not in world.facts.qp_types:
            raise error(failed, errno.EOPNOTSUPP)
        if init_attr.comp_mask != NEEDED or init_attr.oflags & ~(os.O_CREAT | os.O_EXCL):
            raise error(failed, errno.EINVAL)
        self.ctx, self._file = context, self._place(init_attr.fd, failed)
        held = None if self._file is None else world.domains.get(self._file)
        if held is None and self._file is not None and not init_attr.oflags & os.O_CREAT:
            raise error(failed, errno.EAGAIN)
        if held is not None and init_attr.oflags & os.O_EXCL:
            raise error(failed, errno.EINVAL)
        if held is None:
            with refusal(failed):
                held = (int(world.device.make_xrcd()), 0)
        self.handle = held[0]
        if self._file is not None:
            world.domains[self._file] = (self.handle, held[1] + 1)
        self._opened()
        context._add_dependent(self, "xrcds")

    def _place(self, fd: int, failed: str) -> tuple[int, int] | None:
        """The device and inode of the file; None: a domain without a file."""
        if fd == -1:
            return None
        try:
            found = os.fstat(fd)
        except OSError as wrong:
            raise error(failed, wrong.errno or errno.EBADF) from None
        return found.st_dev, found.st_ino

    def _release(self) -> None:
        world = self.ctx.world
        if self._file is not None:
            handle, holders = world.domains[self._file]
            if holders > 1:
                world.domains[self._file] = (handle, holders - 1)
                return
            del world.domains[self._file]
        world.device.free_xrcd(self.handle)
