"""A message of Trapeze as its receiver has it: a control message, and where its payload is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.config.delivery import CONTROL_BYTES
from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import whole
from nicscope.interfaces.ownership import Owned

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.drivers.simulate.driven import Ended
    from nicscope.interfaces.payloads import Payloads


class Message(Owned):
    """What ``receive`` gives."""

    what = "a message"
    origin = "receive()"

    def __init__(self, ended: Ended, control: bytes, payloads: Payloads) -> None:
        self.sender = ended.peer
        self.number = ended.packet  # counts from 0 per sender
        self.tag = ended.tag
        self.control = control
        self.address = ended.address  # of the payload in the host's memory
        self.byte_count = ended.payload
        self.own = bool(ended.own)  # whether that is a buffer off the receive ring
        self.scanned = 0  # bytes of the control message that ``scan`` has given
        self._payloads = payloads

    def __repr__(self) -> str:
        tag = "" if self.tag < 0 else f", tag {self.tag}"
        return f"<Message {self.number} from node {self.sender}{tag}, {self.byte_count} bytes>"

    @property
    def payload(self) -> NDArray[Any]:
        """uint8, a view of the host's memory, to be read; of no length without a payload.

        Errors: ``SimulationError`` once it is released, or another has overwritten it under its
        tag: what is there now is not this message's.
        """
        if self._gone and self.byte_count:
            raise SimulationError(
                f"the payload of a message that is {self._gone} already: its buffer may hold "
                "another's by now; read it before release(), or copy it"
            )
        if not self.own and self.byte_count:
            self._payloads.check_not_overwritten(self)
        return self._payloads.view(self.address, self.byte_count)

    def scan(self, byte_count: int) -> bytes:
        """The next ``byte_count`` bytes of the control message (``tpz_scan``)."""
        begin, end = self.scanned, self.scanned + whole(byte_count, "a number of bytes")
        if end > CONTROL_BYTES:
            raise SimulationError(
                f"a control message has {CONTROL_BYTES} bytes: {begin} are scanned, "
                f"{byte_count} more are not there"
            )
        self.scanned = end
        return self.control[begin:end]
