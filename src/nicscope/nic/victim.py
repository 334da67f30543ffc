"""The victim cache of a direct-mapped table: fully associative, first in first out.

Source: U-Net/MM 5.1.  ``victims[:registers.victim_count]`` are its entries, the head first.  It has
``victim_entries``; where ``victims`` has room for more, it is a list that grows beyond them while
transfers use what is in it, and is cleaned up as they end (5.2.1).
"""

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.nic.layout import EMPTY, IN_USE

ABSENT = -1


@step
def find_victim(nic, tag):
    """Place of ``tag`` in the victim cache, or ``ABSENT``."""
    for place in range(nic.registers[0].victim_count):
        if nic.victims[place].tag == tag:
            return place
    return np.int64(ABSENT)


@step
def remove_victim(nic, place):
    """The tag at ``place``, which leaves; those behind it move up."""
    tag = np.int64(nic.victims[place].tag)
    registers = nic.registers[0]
    registers.victim_count -= 1
    for later in range(place, registers.victim_count):
        nic.victims[later] = nic.victims[later + 1]
    return tag


@step
def add_victim(nic, tag, frame):
    """Let ``tag`` join the tail; returns the head's tag if it has to leave for it, or ``EMPTY``."""
    append_victim(nic, tag, frame)
    if nic.registers[0].victim_count > nic.config[0].victim_entries:
        return remove_victim(nic, 0)
    return np.int64(EMPTY)


@step
def append_victim(nic, tag, frame):
    """Let ``tag`` join the tail, for which there is room; nothing leaves."""
    registers = nic.registers[0]
    tail = nic.victims[registers.victim_count]
    tail.tag = tag
    tail.frame = frame
    registers.victim_count += 1


@step
def may_grow(nic):
    """Whether there is room for more than the victims that stay."""
    return nic.registers[0].victim_count + 1 < nic.victims.size


@step
def first_unused(nic):
    """Place of the first victim that no transfer uses, or ``ABSENT``."""
    for place in range(nic.registers[0].victim_count):
        if nic.victims[place].frame & IN_USE == 0:
            return place
    return np.int64(ABSENT)
