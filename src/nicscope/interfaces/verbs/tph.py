"""Hints of where the host wants data to be put, which this device has not."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from nicscope.interfaces.verbs.base import Fields, Number, PyverbsCM, PyverbsObject, error

if TYPE_CHECKING:
    from nicscope.interfaces.verbs.device import Context


class DmaHandleInitAttr(Fields, PyverbsObject):
    """What a hint would say."""

    SHOWN = ("comp_mask", "cpu_id", "ph", "tph_mem_type")
    comp_mask, cpu_id, ph, tph_mem_type = Number(), Number(), Number(), Number()

    def __init__(
        self, comp_mask: int = 0, cpu_id: int = 0, ph: int = 0, tph_mem_type: int = 0
    ) -> None:
        self.comp_mask, self.cpu_id = comp_mask, cpu_id
        self.ph, self.tph_mem_type = ph, tph_mem_type


class DMAHandle(PyverbsCM):
    """A hint; errors: EOPNOTSUPP."""

    def __init__(self, ctx: Context, init_attr: DmaHandleInitAttr) -> None:
        self.asked = (ctx, init_attr)
        raise error("Failed to allocate DMA handle", errno.EOPNOTSUPP)
