"""What a step decided, for the driver to carry out: statuses, errors, the end of a connection."""

from __future__ import annotations

from nicscope.kernel.decorators import step
from nicscope.nic.vimsg.codes import Reliability, State
from nicscope.nic.vimsg.layout import NOWHERE

UNRELIABLE = int(Reliability.VIP_SERVICE_UNRELIABLE)
DELIVERY = int(Reliability.VIP_SERVICE_RELIABLE_DELIVERY)
RECEPTION = int(Reliability.VIP_SERVICE_RELIABLE_RECEPTION)
CONNECTED = int(State.VIP_STATE_CONNECTED)
ERROR = int(State.VIP_STATE_ERROR)


@step
def nothing_wrong(vimsg):
    """The outcome of a step as long as nothing is wrong."""
    outcome = vimsg.outcome[0]
    outcome.request = NOWHERE
    outcome.status = 0
    outcome.tell_first = NOWHERE
    outcome.tell_last = NOWHERE
    outcome.error = NOWHERE
    outcome.breaks = 0


@step
def wrong(vimsg, vi, error):
    """The library is to hear of ``error``; with reliability it is the end of the connection."""
    vimsg.outcome[0].error = error
    vimsg.outcome[0].breaks = 1 if vi.level != UNRELIABLE else 0
