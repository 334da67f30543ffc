"""The buffers of a call, and how the bytes that it moved spread over them."""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING, NamedTuple

from nicscope.traces.recording.calls import Shape
from nicscope.traces.recording.ptrace import MOST_PIECES, PIECE, remote_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nicscope.traces.recording.calls import Call

# struct msghdr and struct mmsghdr of 64-bit Linux: (iovec *, count), and the bytes moved.
_HEADER_SIZE = 56
_VECTOR_AT = 16
_MESSAGE_SIZE = 64
_MOVED = struct.Struct("=56xI4x")
LONGEST = 0xFFFF_FFFF  # of a trace's columns


class Segment(NamedTuple):
    """A buffer that was offered to the kernel."""

    address: int
    posted: int  # bytes


class Moved(NamedTuple):
    """A buffer through which bytes moved."""

    address: int
    posted: int  # bytes
    length: int  # bytes, at least 1


def offered(tid: int, call: Call, arguments: Sequence[int]) -> list[list[Segment]] | None:
    """The buffers of each message of a call (one, save for ``sendmmsg`` and ``recvmmsg``).

    None if the memory that lists them cannot be read.
    """
    _, address, count, *_ = arguments
    if call.shape is Shape.BUFFER:
        return [[Segment(address, count)]]
    if call.shape is Shape.VECTOR:
        return _vectors(tid, [(address, count)])
    if call.shape is Shape.MESSAGE:
        return _vectors_of_headers(tid, address, 1, _HEADER_SIZE)
    count = min(count & 0xFFFF_FFFF, MOST_PIECES)
    return _vectors_of_headers(tid, address, count, _MESSAGE_SIZE)


def moved(
    tid: int, call: Call, arguments: Sequence[int], messages: list[list[Segment]], result: int
) -> list[Moved] | None:
    """What moved through the buffers of a call that returned ``result``, at least 1.

    None if the memory that says so cannot be read.
    """
    if call.shape is not Shape.MESSAGES:
        return spread(messages[0], result)
    raw = remote_bytes(tid, [(arguments[1], result * _MESSAGE_SIZE)])
    if raw is None:
        return None
    lengths = [length for (length,) in _MOVED.iter_unpack(raw)]
    pairs = zip(messages, lengths, strict=False)  # not all messages were sent or have come
    return list(itertools.chain.from_iterable(spread(*pair) for pair in pairs))


def spread(segments: Iterable[Segment], byte_count: int) -> list[Moved]:
    """``byte_count`` bytes filled into ``segments`` in order; what does not fit is left out.

    A datagram longer than its buffers may report its full length (``MSG_TRUNC``).
    """
    through = []
    for address, posted in segments:
        if byte_count <= 0:
            break
        length = min(posted, byte_count)
        if length:
            through.append(Moved(address, min(posted, LONGEST), length))
        byte_count -= length
    return through


def _vectors_of_headers(
    tid: int, address: int, count: int, stride: int
) -> list[list[Segment]] | None:
    raw = remote_bytes(tid, [(address, count * stride)]) if count else b""
    if raw is None:
        return None
    starts = range(_VECTOR_AT, count * stride, stride)
    return _vectors(tid, [PIECE.unpack_from(raw, start) for start in starts])


def _vectors(tid: int, vectors: Sequence[tuple[int, int]]) -> list[list[Segment]] | None:
    """The segments of each (iovec *, count)."""
    if any(count > MOST_PIECES for _, count in vectors):
        return None  # the kernel refuses them too
    raw = remote_bytes(tid, [(start, count * PIECE.size) for start, count in vectors if count])
    if raw is None:
        return None
    segments = map(Segment._make, PIECE.iter_unpack(raw))
    return [list(itertools.islice(segments, count)) for _, count in vectors]
