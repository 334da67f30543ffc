"""Buffers of other devices, of which a simulated node has none."""

from __future__ import annotations

import errno

from nicscope.interfaces.verbs.base import PyverbsCM, error


class DmaBuf(PyverbsCM):
    """A buffer of a graphics card; errors: EOPNOTSUPP."""

    fd = drm_fd = -1
    map_offset = 0

    def __init__(self, size: int, gpu: int = 0, gtt: int = 0) -> None:
        self.asked = (int(size), int(gpu), int(gtt))
        raise error(f"Failed to allocate dmabuf of size {int(size)}", errno.EOPNOTSUPP)
