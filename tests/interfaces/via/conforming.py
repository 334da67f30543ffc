"""What programs are asked for by the rows of the specification, and what they say of it."""

import pytest
from pairs import (
    DELIVERY,
    RECEPTION,
    UNRELIABLE,
    Cluster,
    ended,
)

from nicscope.interfaces.via import Status, VipError
from nicscope.interfaces.via.descriptor import DataSegment
from program_results import results_of

DONE = Status.VIP_STATUS_DONE


FLUSHED = Status.VIP_STATUS_DESC_FLUSHED_ERROR


RECEIVE = Status.VIP_STATUS_OP_RECEIVE


LEVELS = (UNRELIABLE, DELIVERY, RECEPTION)


def alone(program, mechanism="edt", nodes=1, **how):
    """What one program returns."""
    return results_of(Cluster(mechanism=mechanism, nodes=nodes, **how), program)[0]


async def code_of(call):
    """The return code of a call that must fail."""
    with pytest.raises(VipError) as caught:
        await call
    return caught.value.code


async def sent(end, descriptor):
    await end.nic.post_send(end.vi, descriptor)
    return (await ended(end.nic.send_wait(end.vi))).status


async def outcome(end):
    """Status of the next receive, then the state of the VI and its errors some time later."""
    status = (await ended(end.nic.recv_wait(end.vi))).status
    await end.nic.compute(100)
    return status, end.vi.state, end.nic.errors(end.vi)


async def nobodys(end):
    return DataSegment(end.out.address, 999, 64)
