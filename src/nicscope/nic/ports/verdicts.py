"""What the other end of a connection is told when this end has ended it."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.nic.ports.layout import DONE, FLUSHED


@step
def own_verdict(port):
    """Of an end that is not the other's fault: a VI says that it is over, a queue pair nothing."""
    return np.int64(FLUSHED if port.by_verbs == 0 else DONE)
