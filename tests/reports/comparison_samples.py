"""A comparison of few designs over a trace small enough to check by hand."""

import numpy as np

from nicscope.drivers.replay import replay
from nicscope.studies.replaying import Comparison, choose_subjects, with_price
from nicscope.traces.schema import Requests

# A range (mini), no platform (via-static), a cache with misses of several kinds, and none.
DESIGNS = ["utlb", "unet-mm-dc21140", "mini", "unet", "via-static"]


COUNT = 600


def requests():
    count, random = COUNT, np.random.default_rng(1)
    op = random.integers(0, 6, count).astype(np.uint8)
    return Requests(
        time_ns=np.zeros(count, np.int64),
        node=(np.arange(count) % 2).astype(np.int32),
        pid=np.full(count, 5, np.int32),
        receive=(op >= 3).view(np.uint8),
        op=op,
        address=(random.integers(0, 2000, count) ** 2 // 500 * 4096).astype(np.uint64),
        length=random.integers(1, 9000, count).astype(np.uint32),
    )


def comparison(names=DESIGNS, kinds=True, overrides=()):
    subjects = choose_subjects(names, None, overrides)
    results = replay([requests()], [subject.design for subject in subjects], kinds)
    pairs = zip(results, subjects, strict=True)
    return Comparison(
        trace={
            "file": "somewhere/sample.parquet",
            "bytes": 1,
            "requests": COUNT,
            "nodes": 2,
            "recorded_page_size": 4096,
            "origin": {},
        },
        priced=[with_price(result, subject.platform) for result, subject in pairs],
        repeat={"command": [], "version": "", "source": "", "overrides": []},
        kinds=kinds,
    )
