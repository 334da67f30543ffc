"""Has whatever runs a kernel wait until it is compiled: imported before nicscope, for that alone.

Else the first seconds of a bench would be those of plain Python, as compiled code is made in the
background.  What a bench starts inherits it; who says ``NICSCOPE_COMPILE`` is asked for that.
"""

from __future__ import annotations

import os

os.environ.setdefault("NICSCOPE_COMPILE", "wait")
