"""What a real device might have and this one has not: every attempt to make it says so."""

from __future__ import annotations

import errno
from typing import Any

from nicscope.interfaces.verbs.base import PyverbsCM, PyverbsObject, error


class Unbuilt(PyverbsCM):
    """Something that the device has not; errors: EOPNOTSUPP."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise error(f"Failed to create {type(self).__name__}", errno.EOPNOTSUPP)


class Values(PyverbsObject):
    """What would be asked for, by names."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.given = given
        self.__dict__.update(named)
