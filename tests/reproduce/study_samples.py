"""Trace files for the studies: traffic that fills caches and pin limits."""

import numpy as np

from nicscope.studies.reproduce.experiments.utlb import PAGE, shared_memory_traffic
from nicscope.studies.reproduce.harness import load_papers
from nicscope.studies.reproduce.traced.measuring import run_studies
from nicscope.studies.reproduce.traced.programs import open_applications
from nicscope.traces.schema import TraceMetadata
from nicscope.traces.writer import write_trace

# Large pages, so that few requests reach the limits of 4 and 16 MB: 64 and 256 pages.
PAGE_SIZE = 65536
# Laying out the NICs of 83 designs takes minutes for each trace without the compiler.
ALL = [
    ("mini", "figure5"),
    ("utlb", "table3"),
    ("utlb", "table4"),
    ("utlb", "table5"),
    ("utlb", "table7"),
    ("utlb", "table8"),
    ("utlb", "figure7"),
    ("utlb", "figure8"),
    ("utlb", "section7_independent"),
    ("utlb", "section7_per_process"),
]


def write_sample(path, seed=1, rows=500, origin=None):
    """A trace of ``rows`` requests of six processes on two nodes, each for a single page."""
    requests = shared_memory_traffic(rows=rows, processes=3, seed=seed)
    spread = requests.address * np.uint64(PAGE_SIZE // PAGE)
    return write_requests(path, requests._replace(address=spread), origin)


def write_requests(path, requests, origin=None):
    """A trace of ``requests`` with large pages."""
    metadata = TraceMetadata(page_size=PAGE_SIZE, origin=origin or {})
    columns = requests._asdict()
    del columns["receive"]
    write_trace(path, columns, metadata)
    return path


def tables_of(*files):
    """Every study of ``files``, by PAPER/ID."""
    applications = open_applications(files)
    studied = run_studies(ALL, applications, load_papers())
    assert not studied.points
    assert not studied.shapes
    return {f"{table.paper}/{table.id}": table for table in studied.tables}
