"""RDMA's verbs on a simulated device, for programs that are written for it.

``import nicscope.verbs.device as d`` and so on: the modules that ``nicscope verbs run`` offers to
programs as ``pyverbs``, the same objects.
"""

from __future__ import annotations

import sys
from typing import Any

from nicscope.interfaces.verbs import __version__
from nicscope.interfaces.verbs.base import World, here, use
from nicscope.interfaces.verbs.modules import Alias
from nicscope.interfaces.verbs.os_emulation import exchange

__all__ = ["World", "__version__", "exchange", "here", "use"]

__path__: list[Any] = []  # it has modules, which the finder finds
sys.meta_path.insert(0, Alias(__name__))
