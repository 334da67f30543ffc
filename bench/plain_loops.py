"""What `make speed` holds nicscope against besides pycachesim: loops that stay as they are.

Each does the work of a row in the plainest way: one loop over lookups or events in plain Numba, or
Python objects that call each other, Python's own pickler among them.  A change here makes figures
in speed.toml worthless.
"""

from __future__ import annotations

import pickle
import struct
from typing import TYPE_CHECKING

import numba
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Generator

NOBODY = np.uint32(0xFFFFFFFF)
PENDING = 16  # events
STATIONS = 4096  # that events come by
RECORD = struct.Struct("<QIIHBx")


@numba.njit(cache=True)
def depth_in(row, key):
    """Put ``key`` first in ``row``, in order of recency; where it stood, or the row's length."""
    above = key
    for depth in range(row.size):
        above, row[depth] = row[depth], above
        if above == key:
            return depth
    return row.size


@numba.njit(cache=True)
def depths(numbers, index, sets, ways):
    """Lookups by where they stand in their set; the last are misses."""
    rows = np.full((sets, ways), NOBODY)
    found = np.zeros(ways + 1, np.int64)
    for i in range(numbers.size):
        found[depth_in(rows[index[i] & np.uint32(sets - 1)], numbers[i])] += 1
    return found


@numba.njit(cache=True)
def grid(numbers, index, low, high, ways):
    """``depths`` with 2**low to 2**high sets."""
    found = np.zeros((high - low + 1, ways + 1), np.int64)
    for bits in range(low, high + 1):
        found[bits - low] = depths(numbers, index, 1 << bits, ways)
    return found


@numba.njit(cache=True)
def kinds(numbers, index, sets, ways, keys):
    """Compulsory, capacity and conflict misses, beside an LRU list of as many entries."""
    rows = np.full((sets, ways), NOBODY)
    after, before = np.full(keys + 1, keys, np.uint32), np.full(keys + 1, keys, np.uint32)
    state = np.zeros(keys, np.uint8)  # 0: never looked up; 1: fell off the list; 2: on it
    listed, found = 0, np.zeros(3, np.int64)
    for i in range(numbers.size):
        key = numbers[i]
        was = state[key]
        if depth_in(rows[index[i] & np.uint32(sets - 1)], key) == ways:
            found[was] += 1
        if was == 2:
            after[before[key]], before[after[key]] = after[key], before[key]
        elif listed == sets * ways:
            oldest = before[keys]
            before[keys], after[before[oldest]] = before[oldest], keys
            state[oldest] = 1
        else:
            listed += 1
        state[key] = 2
        after[key], before[key] = after[keys], keys
        before[after[keys]] = key
        after[keys] = key
    return found


@numba.njit(cache=True)
def misses_with_victims(numbers, index, entries, most):
    """Misses of a direct-mapped cache whose last ``most`` evicted entries wait in a queue."""
    primary = np.full(entries, NOBODY)
    victims, waiting, misses = np.full(most + 1, NOBODY), 0, 0
    for i in range(numbers.size):
        slot = index[i] & np.uint32(entries - 1)
        key, out = numbers[i], primary[slot]
        if out == key:
            continue
        place = 0
        while place < waiting and victims[place] != key:
            place += 1
        hit = place < waiting
        if not hit:
            misses += 1
            place = 0 if waiting == most else waiting
        if hit or waiting == most:
            for later in range(place, waiting - 1):
                victims[later] = victims[later + 1]
            waiting -= 1
        primary[slot] = key
        if out != NOBODY:
            victims[waiting] = out
            waiting += 1
    return misses


@numba.njit(cache=True)
def distances(numbers, keys):
    """Lookups by LRU stack distance, by a binary indexed tree over the times of the latest ones."""
    room = 2 * keys
    tree, latest = np.zeros(room + 1, np.int32), np.zeros(keys, np.int32)
    at, found = np.full(room + 1, NOBODY), np.zeros(keys, np.int64)
    now, known = 0, 0
    for i in range(numbers.size):
        if now == room:  # number those that count anew
            now = 0
            for slot in range(1, room + 1):
                if at[slot] != NOBODY:
                    now += 1
                    at[now], latest[at[slot]] = at[slot], now
            at[now + 1 :] = NOBODY
            for slot in range(1, room + 1):
                tree[slot] = min(slot, now) - min(slot - (slot & -slot), now)
        key = numbers[i]
        slot = np.int64(latest[key])
        if slot:
            at[slot] = NOBODY
            distance, place = known, slot
            while place:
                distance -= tree[place]
                place &= place - 1
            found[distance] += 1
            while slot <= room:
                tree[slot] -= 1
                slot += slot & -slot
        else:
            known += 1
        now += 1
        latest[key], at[now], slot = now, key, now
        while slot <= room:
            tree[slot] += 1
            slot += slot & -slot
    return found


@numba.njit(cache=True)
def hold(count):
    """A heap of pending events: take the earliest, change the station it is at, put it back."""
    times, places = np.arange(PENDING), np.arange(PENDING)
    stations = np.zeros((STATIONS, 8), np.int64)
    draw = np.uint64(1)
    for _ in range(count):
        time, place = times[0], places[0]
        draw = draw * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        station = stations[place]
        station[0] += 1
        station[1 + np.int64(draw >> np.uint64(62))] = time
        station[5] ^= station[1] + station[3]
        time += 1 + np.int64(draw >> np.uint64(54))
        place = (place + station[5]) & (STATIONS - 1)
        hole = 0
        while 2 * hole + 1 < PENDING:
            child = 2 * hole + 1
            if child + 1 < PENDING and times[child + 1] < times[child]:
                child += 1
            if times[child] >= time:
                break
            times[hole], places[hole] = times[child], places[child]
            hole = child
        times[hole], places[hole] = time, place
    return stations[:, 0].sum()


class _Station:
    """Takes requests out of a ring of bytes, one by one."""

    def __init__(self) -> None:
        self.ring = bytearray(16 * RECORD.size)
        self.memory = bytearray(4096)
        self.posted = self.taken = 0

    def post(self, address: int, length: int, key: int) -> None:
        slot = self.posted % 16 * RECORD.size
        RECORD.pack_into(self.ring, slot, address, length, key, self.posted & 0xFFFF, 1)
        self.posted += 1

    def take(self) -> tuple[int, int]:
        slot = self.taken % 16 * RECORD.size
        address, length, _, _, _ = RECORD.unpack_from(self.ring, slot)
        self.taken += 1
        return address, length

    def program(self) -> Generator[bytes, bytes, None]:
        """Answers each message with the one that its next request names."""
        message = b""
        while True:
            if message:
                address, content = pickle._loads(message)
                self.memory[address : address + len(content)] = content
            address, length = self.take()
            content = bytes(self.memory[address : address + length])
            message = yield pickle._dumps((address, content))


def interpreted(count: int) -> int:
    """Bytes of so many messages between two objects: calls, records, pickles, resumptions.

    The pickler is the one written in Python: some hundred functions, as a program's are.
    """
    pair = (_Station(), _Station())
    programs = [station.program() for station in pair]
    for station, program in zip(pair, programs, strict=True):
        station.post(0, 64, 7)
        message = next(program)
    moved = 0
    for turn in range(count):
        here = turn & 1
        pair[here].post(turn % 32 * 64, 64, 7)
        message = programs[here].send(message)
        moved += len(message)
    return moved
