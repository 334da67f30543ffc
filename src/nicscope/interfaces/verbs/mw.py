"""Memory windows: rights on a part of a region, which come and go by work requests."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.base import PyverbsCM, PyverbsObject, error, refusal
from nicscope.interfaces.verbs.fields import Fields, Number

if TYPE_CHECKING:
    from nicscope.interfaces.verbs.mr import MR
    from nicscope.interfaces.verbs.pd import PD


class MWBindInfo(Fields, PyverbsObject):
    """Where a window is to open, and for what."""

    SHOWN = ("address", "length", "mw_access_flags")
    address, length, mw_access_flags = Number(), Number(), Number()

    def __init__(self, mr: MR, addr: int, length: int, mw_access_flags: int) -> None:
        self.mr = mr
        self.address, self.length, self.mw_access_flags = addr, length, mw_access_flags


class MWBind(Fields, PyverbsObject):
    """A request to open a window of type 1."""

    SHOWN = ("wr_id", "send_flags")
    wr_id, send_flags = Number(), Number()

    def __init__(self, info: MWBindInfo, send_flags: int, wr_id: int = 0) -> None:
        self.info = info
        self.send_flags, self.wr_id = send_flags, wr_id


class MW(PyverbsCM):
    """A memory window."""

    def __init__(self, pd: PD, mw_type: int) -> None:
        self.pd, self.type = pd.pd, int(mw_type)
        world = pd.ctx.world
        if not world.facts.windows:
            raise error("Failed to create MW", errno.EOPNOTSUPP)
        if self.type not in (e.IBV_MW_TYPE_1, e.IBV_MW_TYPE_2):
            raise error("Failed to create MW", errno.EINVAL)
        with refusal("Failed to create MW"):
            self.handle, self.rkey = world.device.alloc_mw(self.pd.handle, self.type)
        self._opened()
        pd._adopt(self, "mws")

    def _release(self) -> None:
        self.pd.ctx.world.device.free_mw(self.handle)
