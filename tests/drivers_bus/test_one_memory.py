"""One memory under paging and caches: a block's number is its physical address."""

import numpy as np
from bus_world import BusWorld
from hypothesis import given
from hypothesis import strategies as st

from nicscope.drivers.simulate.bus.state import new_bus, unfitted
from nicscope.memory.coherence.layout import MODIFIED
from nicscope.memory.paging.frames import evict_page, provide
from nicscope.memory.paging.layout import READ, WRITE, new_memory
from nicscope.memory.paging.spaces import fork_space, map_pages, move_bytes
from nicscope.nic.coherent import Mechanism
from suite import share

PAGE, PAGES, FRAMES = 512, 6, 6
HOST = {"l1_bytes": 256, "l2_bytes": 2048, "l2_line": 128}
NIC = {"memory_bytes": 4096, "staging_bytes": 1024, "queue_blocks": 2}
INTERVENTION = int(Mechanism.DMA_INTERVENTION)
STORE, LOAD, EVICT, FORK, DMA_OUT, DMA_IN, KERNEL_READ, KERNEL_WRITE = range(8)


class Paged:
    """A process and its child, whose pages swap, over the memory of a host with caches.

    CNI's queues stand behind the frames that pages get, as frames pinned for the kernel would.
    """

    def __init__(self):
        kernel = 4  # frames of the queues
        memory = new_memory(2, FRAMES + kernel, PAGE, 2, PAGES, 32)
        for h in range(2):  # the last frames are the kernel's
            chain = list(range(1, FRAMES))
            memory.frames[h]["next_free"][chain[-1]] = -1
            memory.hosts[h]["free_frames"] = len(chain)
            memory.frames[h]["pins"][FRAMES:] = 1
        self.world = BusWorld(HOST, NIC, memory=memory.bytes)
        self.memory = memory._replace(caches=self.world.bus.hosts)
        map_pages(self.memory, 0, 0, 0, PAGES, READ | WRITE)
        self.truth = {}
        self.spaces = 1

    def place(self, space, page, offset, write):
        frame = int(provide(self.memory, 0, space, page, int(write)))
        assert frame > 0
        return frame * PAGE + offset

    def kept(self, space, page):
        return self.truth.setdefault((space, page), bytearray(PAGE))

    def take(self, kind, space, page, offset, raw):
        space = min(space, self.spaces - 1)
        count = len(raw)
        mine = self.kept(space, page)[offset : offset + count]
        if kind == EVICT:
            evict_page(self.memory, 0, space, page)
        elif kind == FORK and self.spaces == 1:
            fork_space(self.memory, 0, 0, 1)
            self.spaces = 2
            for each in range(PAGES):
                self.truth[1, each] = bytearray(self.kept(0, each))
        elif kind == LOAD:
            found, _ = self.world.load(self.place(space, page, offset, False), count)
            assert found == mine
        elif kind == DMA_OUT:
            where = self.place(space, page, offset, False)
            self.world.fetch(INTERVENTION, where, count, 0)
            assert self.world.nic_bytes(0, count) == mine
        elif kind == KERNEL_READ:
            out = np.zeros(count, np.uint8)
            assert move_bytes(self.memory, 0, space, page * PAGE + offset, out, count, 0) == count
            assert out.tobytes() == mine
        elif kind in (STORE, DMA_IN, KERNEL_WRITE):
            self.write(kind, space, page, offset, raw)

    def write(self, kind, space, page, offset, raw):
        data = np.frombuffer(raw, np.uint8)
        if kind == KERNEL_WRITE:
            move_bytes(self.memory, 0, space, page * PAGE + offset, data, len(raw), 1)
        else:
            where = self.place(space, page, offset, True)
            if kind == STORE:
                self.world.store(where, raw)
            else:
                self.world.bus.ways.agents.memory[0, : len(raw)] = data
                self.world.deliver(INTERVENTION, 0, where, len(raw))
        self.kept(space, page)[offset : offset + len(raw)] = raw


steps = st.lists(
    st.tuples(
        st.sampled_from((*range(8), STORE, STORE, EVICT)),
        st.integers(0, 1),
        st.integers(0, PAGES - 1),
        st.integers(0, PAGE - 130),
        st.integers(1, 130),
    ),
    min_size=1,
    max_size=40,
)


@share(2)
@given(steps=steps, seed=st.integers(0, 3))
def test_pages_that_swap_and_fork_under_caches_keep_the_last_write(steps, seed):
    paged = Paged()
    rng = np.random.default_rng(seed)
    for kind, space, page, offset, count in steps:
        paged.take(kind, space, page, offset, rng.bytes(count))
    for space in range(paged.spaces):
        for page in range(PAGES):
            paged.take(LOAD, space, page, 0, bytes(PAGE))


def test_what_only_a_cache_holds_goes_to_swap_and_comes_back():
    paged = Paged()
    paged.take(STORE, 0, 2, 100, b"held by a cache")
    states = paged.world.bus.hosts.l2[0]["state"]
    assert (states == MODIFIED).any()

    paged.take(EVICT, 0, 2, 0, b"")
    assert int(paged.memory.hosts[0]["page_outs"]) == 1
    for page in (3, 4, 5, 0, 1):  # all frames get other pages
        paged.take(STORE, 0, page, 100, b"something else.")

    paged.take(LOAD, 0, 2, 100, b"held by a cache")
    assert int(paged.memory.hosts[0]["page_ins"]) == 1


def test_the_bus_and_the_pages_have_the_same_bytes():
    memory = new_memory(2, 64, 4096, 1, 8, 0)

    bus = new_bus(2, 1, unfitted().host, unfitted().nic, memory=memory.bytes)

    assert np.shares_memory(bus.hosts.memory, memory.bytes)
    assert bus.ways.agents.home.shape[1] == memory.bytes.shape[1] // 128
