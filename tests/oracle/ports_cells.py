"""Packets of ports over a link of cells: ``nic/ports/cells.py`` once more, slow and obvious."""

from oracle.delivery_records import CONTROL_BYTES
from oracle.ports_firmware import Firmware
from oracle.ports_records import ACK, SEND

NUMBERS = 8  # bytes of a sequence number and an acknowledgement


def padding(data, cell, trailer):
    """Bytes that fill up the last cell, so that the trailer is at its end."""
    count = 0
    while (data + count + trailer) % cell:
        count += 1
    return count


class InCells(Firmware):
    """A message is one PDU; where packets are numbered, each of them is."""

    def header_bytes(self, node, message):
        if not node.costs["cell_bytes"]:
            return CONTROL_BYTES
        numbers = NUMBERS if self.world.reliable else 0
        if message.operation == ACK:
            return NUMBERS
        if message.operation != SEND:
            return CONTROL_BYTES
        return numbers + (0 if message.payload else message.whole)

    def framing(self, node, message):
        """Bytes behind a packet's last."""
        cell, trailer = node.costs["cell_bytes"], node.costs["trailer_bytes"]
        if not cell:
            return 0
        data = self.header_bytes(node, message) + message.payload
        if message.operation == SEND and not self.world.reliable:
            if not message.last:
                return 0
            data = message.whole
        return padding(data, cell, trailer) + trailer
