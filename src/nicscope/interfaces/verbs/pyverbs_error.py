"""What a verb raises."""

from __future__ import annotations

import os

NO_CODE = -1


class PyverbsError(Exception):
    """A verb that failed; its message ends with the system's word for the error, if it has one."""

    def __init__(self, msg: str, error_code: int = NO_CODE) -> None:
        if error_code != NO_CODE:
            msg = f"{msg}. Errno: {error_code}, {os.strerror(error_code)}"
        super().__init__(msg)


class PyverbsRDMAError(PyverbsError):
    """A verb that the device has refused."""

    def __init__(self, msg: str, error_code: int = NO_CODE) -> None:
        super().__init__(msg, error_code)
        self._code = error_code

    @property
    def error_code(self) -> int:
        """The system's number of the error; -1: none."""
        return self._code


class PyverbsUserError(PyverbsError):
    """A call that makes no sense, whatever the device."""

    def __init__(self, msg: str) -> None:
        super().__init__(msg)
