"""What threads have open, looked at anew for each call.

Nothing of it is remembered: another process may close a descriptor and open a file in its place.
But the folders of ``/proc`` that tell it stay open, as finding them takes longer than the look.
"""

from __future__ import annotations

import os

MOST_FOLDERS = 256  # of 1,024 descriptors that a process usually may have


class Descriptors:
    """The descriptors of traced threads."""

    def __init__(self) -> None:
        self._folders: dict[int, int] = {}  # by thread, the latest last

    def status(self, tid: int, descriptor: int) -> os.stat_result:
        """What ``descriptor`` of a thread is.

        Errors: ``PermissionError`` if this user may not know, else ``OSError`` if it is none.
        """
        folder = self._folders.get(tid)
        if folder is None:
            folder = self._open(tid)
        return os.stat(str(descriptor), dir_fd=folder)

    def forget(self, tid: int) -> None:
        """Close the folder of a thread that has ended or become another program."""
        folder = self._folders.pop(tid, None)
        if folder is not None:
            os.close(folder)

    def close(self) -> None:
        """Close all."""
        for tid in list(self._folders):
            self.forget(tid)

    def _open(self, tid: int) -> int:
        if len(self._folders) >= MOST_FOLDERS:
            self.forget(next(iter(self._folders)))
        folder = os.open(f"/proc/{tid}/fd", os.O_PATH | os.O_CLOEXEC)
        self._folders[tid] = folder
        return folder
