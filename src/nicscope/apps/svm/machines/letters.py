"""Letters between domains: what they are about, and their bytes."""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple

import numpy as np

from nicscope.apps.svm.diffs import Diff

HEAD = struct.Struct("<BHHI")
PAGE = struct.Struct("<I?")


class Kind(enum.IntEnum):
    """What a letter is about."""

    ANSWER = 0  # to a question
    CLAIM = 1  # a question: who is the home of a page, and may I be it
    SETTLED = 2  # its home has a page by now
    FETCH = 3  # a question: a page as it is at its home
    DIFF = 4  # a question: have these words in a page
    LOCK = 5  # whoever has a lock shall pass it on to me; to its manager
    PASS = 6  # the same, from the manager to whoever asked before
    GRANT = 7  # a lock, and what who has it must know
    ARRIVE = 8  # at a barrier, with what I wrote
    LEAVE = 9  # it, with what others wrote


class Letter(NamedTuple):
    """One letter, of a domain to another."""

    kind: Kind
    sender: int
    to: int
    number: int  # of the question that it is or answers; 0 of others
    body: bytes = b""

    def packed(self) -> bytes:
        """Its bytes."""
        return HEAD.pack(self.kind, self.sender, self.to, self.number) + self.body


def unpacked(raw: bytes) -> Letter:
    """A letter of its bytes."""
    kind, sender, to, number = HEAD.unpack_from(raw)
    return Letter(Kind(kind), sender, to, number, raw[HEAD.size :])


def diff_bytes(diff: Diff) -> bytes:
    """A diff: page, how many words, which, and their values."""
    words = diff.words.astype("<u4").tobytes()
    return struct.pack("<II", diff.page, len(diff.words)) + words + diff.values.tobytes()


def diff_of_bytes(raw: bytes) -> Diff:
    """The diff of its bytes."""
    page, many = struct.unpack_from("<II", raw)
    words = np.frombuffer(raw, "<u4", many, 8).astype(np.int64)
    return Diff(page, words, np.frombuffer(raw, np.uint32, many, 8 + 4 * many))
