"""The IOMMU against ordered dictionaries."""

from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nicscope.drivers.iommu import IommuReplay, Translating
from nicscope.host.iommu import COUNTS
from oracle.iommu import Twin

# Near the ends of tables of each level.
PLACES = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(-9, 9)).map(
    lambda at: (((at[0] * 512 + at[1]) * 512 + at[2]) * 512 + 1024 + at[3]) * 4096
)
REQUESTS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(1, 2), PLACES, st.integers(1, 40_000)),
    min_size=1,
    max_size=60,
)


@given(
    REQUESTS,
    st.sampled_from((1 << 12, 1 << 21, 1 << 30)),
    st.sampled_from((1, 2, 8, 32)),
    st.sampled_from((1, 2, 32)),
    st.sampled_from((0, 1, 4)),
)
def test_it_misses_and_reads_what_the_twin_does(requests, page, iotlb, walk_cache, device):
    node, pid, address, length = (np.array(column) for column in zip(*requests, strict=True))
    batch = SimpleNamespace(
        node=node.astype(np.int32),
        pid=pid.astype(np.int32),
        receive=np.zeros(len(node), np.uint8),
        address=address.astype(np.uint64),
        length=length.astype(np.uint32),
    )
    replay = IommuReplay([Translating(page, iotlb, walk_cache, device)])
    replay.feed(batch)
    [found] = replay.counts()

    twins = [Twin(page, iotlb, walk_cache, device) for _ in range(2)]
    for node, pid, address, length in requests:
        twins[node].access(pid, address, length)

    for name in COUNTS.names:
        assert found[name] == sum(twin.counts[name] for twin in twins), name


def test_numbers_do_not_run_out():
    count = 600
    batch = SimpleNamespace(
        node=np.zeros(count, np.int32),
        pid=np.zeros(count, np.int32),
        receive=np.zeros(count, np.uint8),
        address=np.arange(count, dtype=np.uint64) << np.uint64(30),
        length=np.full(count, 1, np.uint32),
    )
    replay = IommuReplay([Translating(4096, 64, 32)])
    replay.feed(batch)
    replay.feed(batch)

    [found] = replay.counts()
    # Each has tables of its own but for the root's, of which there are two.
    assert found["misses"] == found["pieces"] == 2 * count
    assert found["reads"] == 3 * 2 * count + 2
