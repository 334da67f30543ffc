"""VI-MSG as one would first write it: dictionaries, lists, and the rows of the specification."""

from __future__ import annotations

BLOCK = 128
CONNECTED = 1
UNRELIABLE, DELIVERY, RECEPTION = 1, 2, 4


class Regions:
    """Who may use which memory."""

    def __init__(self):
        self.by_handle = {}

    def add(self, handle, address, length, tag, rights):
        self.by_handle[handle] = (address, length, tag, rights)

    def permits(self, handle, address, length, tag, right):
        if handle not in self.by_handle:
            return False
        begin, size, its_tag, rights = self.by_handle[handle]
        inside = begin <= address and address + length <= begin + size
        return inside and tag == its_tag and rights & right == right


class Rooms:
    """First fit in two stretches, in whole blocks."""

    def __init__(self, staging):
        self.staging = staging
        self.taken = {}

    def take(self, side, count):
        size = max(-(-count // BLOCK), 1) * BLOCK
        begin, end = side * self.staging, (side + 1) * self.staging
        for place in range(begin, end - size + 1, BLOCK):
            if all(place + size <= a or b <= place for a, b in self.taken.items()):
                self.taken[place] = place + size
                return place
        return None

    def give(self, place):
        del self.taken[place]


def fragments(total, mtu):
    """(index, offset, bytes, whether it is the last) of each frame of a message."""
    found = [(i, i * mtu, min(mtu, total - i * mtu)) for i in range(max(-(-total // mtu), 1))]
    return [(*one, one[0] == len(found) - 1) for one in found]


class Assembly:
    """What an unreliable VI makes of the frames that come: whole messages, in order."""

    def __init__(self):
        self.number, self.parts, self.done = None, [], []

    def hear(self, number, index, last):
        if index == 0:
            self.number, self.parts = number, [0]
        elif number == self.number and self.parts and index == self.parts[-1] + 1:
            self.parts.append(index)
        else:
            self.number, self.parts = None, []
            return
        if last:
            self.done.append(number)
            self.number, self.parts = None, []
