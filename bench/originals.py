"""Our parallel programs beside traces of the original SPLASH-2 programs, where one has these.

    python bench/originals.py DIR [NAME ...]

``DIR`` holds request traces of the originals on a home-based shared memory of 4 nodes with 4
processes each, a file for each of ``RUNS``; those that are not there are left out.  Their column
``kind`` tells what each row is.  Each is printed beside a run of ours of the same size.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import nicscope
from nicscope.apps.svm.coherence import CONTROL_BASE, REQUEST_BYTES, SHARED_BASE
from nicscope.studies.applications import APPLICATIONS, PAPERS_PLACEMENT, run_application

# Of each file: the program, its size, and what else is as in that run of the original.
RUNS = {
    "fft_1m": ("fft", "1M", {}),
    "fft_4m": ("fft", "4M", {}),
    "lu2d_1k": ("lu", "1K", {}),
    "lu2d_4k": ("lu", "4K", {}),
    "radix_1m": ("radix", "1M", {}),
    "radix_4m": ("radix", "4M", {}),
    "ocean_258": ("ocean", "258", {}),
    "barnes_32k": ("barnes", "32K", {"steps": 2}),  # one more than it is asked for
    "watern_512": ("water-nsquared", "512", {}),
    "waters_4096": ("water-spatial", "4096", {}),
    "waters_15625": ("water-spatial", "15625", {}),
}
ENTRIES = (1024, 2048, 4096, 8192, 16384)
PAGE_BITS = 12
WIDTH = 11


def of_original(path):
    """Fetches and diffs of an original's trace; a fetch is a request and a read, as with us."""
    table = pq.read_table(path)
    kinds = np.array(table["kind"].to_pylist())
    kept = np.isin(kinds, ("fetch", "diff"))
    rows = {name: table[name].to_numpy()[kept] for name in ("time_ns", "node", "pid", "address")}
    rows["length"] = table["length"].to_numpy()[kept]
    rows["is_fetch"] = kinds[kept] == "fetch"
    return rows


def of_ours(name, size, more):
    """The same of a run of ours."""
    kept = APPLICATIONS[name]
    APPLICATIONS[name] = kept._replace(as_paper={**kept.as_paper, **more}, as_placed={})
    try:
        columns = run_application(name, size, PAPERS_PLACEMENT).columns
    finally:
        APPLICATIONS[name] = kept
    shared = (columns["address"] >= SHARED_BASE) & ~columns["initial"]
    rows = {name: columns[name][shared] for name in ("time_ns", "node", "pid", "address", "length")}
    rows["is_fetch"] = columns["op"][shared] == 4  # a read
    return rows


def measured(rows):
    """What is compared: per node, but for shares."""
    nodes = np.unique(rows["node"])
    page = (rows["address"] >> np.uint64(PAGE_BITS)).astype(np.int64)
    process = rows["node"].astype(np.int64) * 1000 + rows["pid"]
    fetched = rows["is_fetch"]
    others = []
    for node in nodes:
        of_node = fetched & (rows["node"] == node)
        others.append(np.diff(process[of_node]) != 0)
    steps = [np.diff(page[fetched & (process == each)]) == 1 for each in np.unique(process)]

    def distinct(first):
        return len(np.unique(np.stack([first.astype(np.int64), page]), axis=1).T) / len(nodes)

    found = {
        "pages": distinct(rows["node"]),
        "by process": distinct(process),
        "fetches": fetched.sum() / len(nodes),
        "diffs": (~fetched).sum() / len(nodes),
        "next page": float(np.concatenate(steps).mean()),
        "other next": float(np.concatenate(others).mean()),
    }
    trace = with_requests(rows)
    for entries in ENTRIES:
        report = nicscope.replay(trace, "utlb", kinds=False, entries=entries, ways=1)
        total = report.as_json()["total"]
        found[f"NI {entries >> 10} K"] = total["ni_misses"] / total["lookups"]
    return found


def with_requests(rows):
    """A trace as UTLB has it: each fetch is a request from the control page, then a read."""
    order = np.lexsort((rows["node"], rows["time_ns"]))
    rows = {name: column[order] for name, column in rows.items()}
    many = 1 + rows["is_fetch"].astype(np.int64)
    every = {name: np.repeat(column, many) for name, column in rows.items()}
    asks = np.zeros(len(every["node"]), np.bool_)
    asks[(np.cumsum(many) - many)[rows["is_fetch"]]] = True
    read_or_write = np.where(every["is_fetch"], "read", "write")
    return pa.table(
        {
            "time_ns": every["time_ns"],
            "node": every["node"],
            "pid": every["pid"],
            "op": np.where(asks, "send", read_or_write),
            "address": np.where(asks, np.uint64(CONTROL_BASE), every["address"]),
            "length": np.where(asks, REQUEST_BYTES, every["length"]).astype(np.uint32),
        }
    )


def main(folder, chosen):
    """Print both, name by name."""
    for name in chosen or RUNS:
        path = Path(folder) / f"{name}.parquet"
        if not path.exists():
            continue
        original, ours = measured(of_original(path)), measured(of_ours(*RUNS[name]))
        print(f"{name:12}" + "".join(f"{each:>{WIDTH}}" for each in original))
        for who, found in (("original", original), ("ours", ours)):
            shown = [f"{each:,.0f}" if each > 1 else f"{each:.2f}" for each in found.values()]
            print(f"{who:12}" + "".join(f"{each:>{WIDTH}}" for each in shown), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
