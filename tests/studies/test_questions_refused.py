"""Questions that make no sense, of every study in one place: an option, what it takes, what it got.

What is asked of a trace is refused before the trace is read, which is not there. A costs' or
limits' file of one's own is refused with what of it is wrong.
"""

from functools import partial
from math import nan

import pytest

import nicscope as ns
from flow_samples import asked
from nicscope.config import toml_files
from nicscope.config.costs import load_nic_costs, load_registration_costs
from nicscope.errors import NicscopeError, PlatformError
from nicscope.studies.latency import ask as latency
from nicscope.studies.sizing import ask as size
from nicscope.studies.sweep.grid import ask as grid
from refusals import refused

NOT_THERE = "no-such-file.parquet"
STUDIES = {
    "descriptors": partial(ns.rdma.descriptors, NOT_THERE),
    "rcache": partial(ns.rdma.cache, NOT_THERE),
    "odp": partial(ns.rdma.odp, NOT_THERE),
    "path": partial(ns.rdma.path, NOT_THERE),
    "connections": ns.rdma.connections,
    "explain": partial(ns.rdma.explain, "24GiB"),
    "plan": partial(ns.rdma.plan, "1GiB"),
    "register": partial(ns.rdma.register, "1GiB"),
    "register of no size": ns.rdma.register,
    "register of some": partial(ns.rdma.register, "some"),
    "register of much": partial(ns.rdma.register, "2000TiB"),
    "copy": ns.rdma.copy,
    "calibrate-host": ns.rdma.calibrate,
    "verbs lat": ns.verbs_latency,
    "verbs bw": ns.verbs_bandwidth,
    "size": partial(size, nic_memory="128KiB"),
    "latency": latency,
    "flow": asked,
    "sweep": lambda *, grids, design="utlb": grid(design, None, grids, many=False),
}
PRICED = {"platform": "utlb-prototype"}
QUESTIONS = [
    ("descriptors", {"engine": "nixxl"}, "--engine", "'nixxl'", "'nixl'"),
    ("descriptors", {"threads": "0"}, "--threads", "1 to 1024", "LOW..HIGH", "'0'"),
    ("descriptors", {"qps": "4..2"}, "--qps", "4", "2"),
    ("descriptors", {"nic": "efa"}, "nic 'efa'"),
    ("rcache", {"policy": "pages"}, "--policy", "'pages'", "'page'"),
    ("rcache", {"entries": "0"}, "--entries", "none", "from 1"),
    ("rcache", {"entries": "8..4"}, "--entries", "8", "4"),
    ("rcache", {"align": "3"}, "--align", "power of two", "3"),
    ("rcache", {"most_bytes": "much"}, "--bytes"),
    ("rcache", {"costs": "connecty"}, "registration 'connecty'", "'connectx'"),
    ("odp", {"prefetch": "asink"}, "--prefetch", "'asink'", "'async'"),
    ("odp", {"fault_bytes": "3KiB"}, "--fault-bytes", "request", "powers of two"),
    ("odp", {"fault_bytes": "1KiB"}, "--fault-bytes", "page size of 4096"),
    ("odp", {"resident": "some"}, "--resident", "none", "bytes"),
    ("odp", {"resident": "1KiB"}, "--resident", "page size of 4096"),
    ("odp", {"ahead": 0}, "--ahead", "from 1"),
    ("odp", {"page_size": "5KiB"}, "--page-size", "power of two"),
    ("odp", {"faults": "connecty"}, "fault 'connecty'", "'connectx'"),
    ("path", {"iommu": "of"}, "--iommu", "'of'", "'off'"),
    ("path", {"page_size": "64KiB"}, "--page-size", "4KiB, 2MiB or 1GiB", "'64KiB'"),
    ("path", {"iotlb": "60"}, "--iotlb", "powers of two"),
    ("path", {"walk_cache": 0}, "--walk-cache", "powers of two"),
    ("path", {"walks": "none"}, "--walks", "from 1"),
    ("path", {"pcie": "gen6"}, "--pcie", "'gen6'"),
    ("path", {"atc": "60"}, "--atc", "powers of two"),
    ("path", {"ordering": "loose"}, "--ordering", "'loose'"),
    ("path", {"reads": 0}, "--reads", "from 1"),
    ("path", {"read_bytes": "8KiB"}, "--read-bytes", "4096"),
    ("path", {"costs": "connecty"}, "path 'connecty'", "'connectx'"),
    ("connections", {"qps": "0"}, "--qps", "1 to 1048576", "LOW..HIGH", "'0'"),
    ("connections", {"qps": "8..4"}, "--qps", "8", "4"),
    ("connections", {"outstanding_sum": "0"}, "--outstanding-sum", "1 to 4194304", "'0'"),
    ("connections", {"threads": "2000"}, "--threads", "1 to 1024"),
    ("connections", {"operation": "reed"}, "--operation", "'reed'", "'read'"),
    ("connections", {"doorbells": "all"}, "--doorbells", "'all'"),
    ("connections", {"replacement": "fifo"}, "--replacement", "'fifo'"),
    (
        "connections",
        {"qps": "1..1024", "outstanding": "1..4096", "threads": "1..512"},
        "runs", "1024",
    ),
    ("connections", {"nic": "connectx-66"}, "nic 'connectx-66'", "'connectx-6'"),
    ("explain", {"slices": "0"}, "--slices", "1 to 25769803776", "got 0"),
    ("explain", {"slices": "half"}, "--slices", "bytes"),
    ("explain", {"stack": "ucx:new"}, "--stack", "library", "version"),
    ("explain", {"stack": ":1"}, "--stack", "library", "version"),
    ("explain", {"slices": "1B"}, "regions are too many"),
    ("explain", {"hypothesis": "kms"}, "'ksm'"),
    ("explain", {"page_size": "3K"}, "--page-size", "power of two"),
    ("explain", {"fast": 3.0}, "--fast", "--slow", "both"),
    ("explain", {"fast": 3.0, "slow": 4.0}, "--fast", "at least", "--slow"),
    ("plan", {"max_mr": "2MB"}, "--max-mr", "bytes", "65536"),
    ("plan", {"max_entries": "many"}, "--max-entries", "a number", "24M"),
    ("plan", {"max_entries": 0}, "--max-entries", "a number"),
    ("plan", {"page_size": "3K"}, "--page-size", "powers of two", "4096"),
    ("plan", {"kv_block": "2GiB"}, "--kv-block", "1 to", "1,073,741,824"),
    ("plan", {"limits": "elf"}, "limit 'elf'", "'efa'"),
    ("plan", {"max_mr": 512, "kv_block": 512, "page_size": 4096}, "2,097,152", "larger"),
    ("register of no size", {}, "BYTES", "--regions FILE"),
    ("register", {"page": "3K"}, "--page", "powers of two", "4096"),
    ("register", {"nics": 0}, "--nics", "1 to 1024"),
    ("register", {"threads": "few"}, "--threads", "whole numbers", "'few'"),
    ("register", {"touched": "maybe"}, "--touched", "no, yes, or no,yes", "'maybe'"),
    ("register", {"order": "up"}, "--order", "given, ascending, descending"),
    ("register of some", {}, "BYTES", "65536"),
    ("register", {"regions": 0}, "--regions", "from 1 to"),
    ("register of much", {}, "regions", "from 1 to"),
    ("register", {"costs": "efa"}, "registration 'efa'"),
    ("register", {"cache": "range"}, "--cache", "addresses"),
    ("copy", {"page": "3K"}, "--page", "powers of two"),
    ("copy", {"reuse": "0"}, "--reuse", "from 1", "'0'"),
    ("copy", {"nics": "few"}, "--nics", "whole numbers"),
    ("copy", {"costs": "elf"}, "registration 'elf'"),
    ("calibrate-host", {"memory": "1K"}, "--memory", "4,194,304 to 1,073,741,824 bytes"),
    ("calibrate-host", {"memory": "2GiB"}, "--memory", "4,194,304"),
    ("calibrate-host", {"seconds": 0}, "--seconds", "0.1 to 60"),
    ("calibrate-host", {"seconds": nan}, "--seconds", "0.1 to 60"),
    ("calibrate-host", {"nic": "elf"}, "registration 'elf'"),
    ("verbs lat", {"op": "push"}, "--op"),
    ("verbs lat", {"op": "atomic", "size": 64}, "8 bytes"),
    ("verbs lat", {"op": "read", "inline": 8}, "--inline"),
    ("verbs lat", {"size": "0"}, "--size"),
    ("verbs lat", {"size": 64, "iters": 1}, "--iters"),
    ("verbs lat", {"size": 64, "design": "no-such"}, "design", "no-such"),
    ("verbs bw", {"qps": 0}, "--qps", "at least 1"),
    ("verbs bw", {"qps": 999}, "from 1"),
    ("verbs bw", {"tx_depth": 0}, "--tx-depth", "at least 1"),
    ("size", {"nic_memory": "0"}, "from 1B"),
    ("size", {"nic_memory": "-4KiB"}, "128KiB", "'-4KiB'"),
    ("size", {"nic_memory": "4 parsecs"}, "'4 parsecs'"),
    ("size", {"nic_memory": "9999999TiB"}, "'9999999TiB'"),
    ("size", {"pin_memory": "0B"}, "--pin-memory", "from 1B"),
    ("size", {"platform": "utlb-protoype"}, "'utlb-prototype'"),
    ("size", {"target_us": 2.0}, "--platform"),
    ("size", {"target_us": 0.0, **PRICED}, "above 0", "0.0"),
    ("size", {"target_us": nan, **PRICED}, "above 0"),
    ("size", {"page_sizes": "4KiB,3000"}, "power of two", "3000"),
    ("size", {"page_sizes": "4KiB,,2MiB"}, "got ''"),
    ("size", {"page_sizes": "none"}, "4KiB,2MiB", "'none'"),
    ("size", {"page_sizes": "2TiB"}, "--page-size"),
    ("latency", {"sizes": "0"}, "--bytes", "1 to 65536"),
    ("latency", {"sizes": "64..x"}, "'64..x'"),
    ("latency", {"sizes": "65537"}, "1 to 65536"),
    ("latency", {"sizes": "128..64"}, "ascend", "64..128"),
    ("latency", {"mechanisms": "edt,dna"}, "mechanism 'dna'", "'dma'"),
    ("latency", {"mechanisms": "EDT"}, "mechanism 'EDT'", "'edt'"),
    ("latency", {"mechanisms": ""}, "--mechanism"),
    ("latency", {"mechanisms": "edt,,dma"}, "'edt,,dma'", "empty"),
    ("latency", {"mtu": 0}, "--mtu", "at least 1"),
    ("latency", {"dma_rate": -3}, "--dma-rate", "at least 1"),
    ("latency", {"mechanisms": "cni", "delivery": "cut-through"}, "cni", "cut through"),
    ("latency", {"delivery": "cut-throu"}, "delivery 'cut-throu'", "'cut-through'"),
    ("latency", {"entries": 4}, "--entries", "--translation utlb"),
    ("latency", {"pages": 4}, "--pages", "translation cache"),
    ("latency", {"translation": "utlb", "pages": 0}, "--pages", "1 to 256", "got 0"),
    ("latency", {"overrides": ["mtu"]}, "--set", "NAME=NUMBER"),
    ("latency", {"overrides": ["mtu=1.5"]}, "--set", "NAME=NUMBER"),
    ("latency", {"overrides": ["mtu=-1"]}, "whole number", "negative"),
    ("latency", {"overrides": ["mtu=9"], "mtu": 9}, "twice", "--set mtu=9", "--mtu"),
    ("latency", {"overrides": ["word=4", "word=8"]}, "--set word=8", "another"),
    ("latency", {"overrides": ["max_transfer=500"]}, "4096 bytes", "max_transfer, 500"),
    ("latency", {"overrides": ["cache_supply=60 apples"]}, "cache_supply", "ps, ns, us, ms, s"),
    ("flow", {"payload": "8193"}, "8193", "8192", "--max-payload 8193"),
    ("flow", {"payload": "-1"}, "--payload", "from 0"),
    ("flow", {"payload": "much"}, "--payload", "whole number of bytes"),
    ("flow", {"payload": "1.5"}, "'1.5'"),
    ("flow", {"max_payload": "0", "payload": "0"}, "--max-payload", "from 1"),
    ("flow", {"count": 0}, "--count", "from 1"),
    ("flow", {"count": -3}, "--count", "1 to 1048576", "-3"),
    ("flow", {"count": 1 << 20, "nodes": 64}, "32 senders"),
    ("flow", {"gap": "-1us"}, "--gap", "0 to 1 s", "-1us"),
    ("flow", {"gap": "130"}, "--gap", "ps, ns, us, ms, s", "130us"),
    ("flow", {"gap": "0.1ps"}, "--gap", "0.1ps"),
    ("flow", {"minpulse": 0}, "minpulse", "from 1", "8192 bytes", "got 0"),
    ("flow", {"minpulse": 128, "payload": "100"}, "minpulse", "100 bytes", "got 128"),
    ("flow", {"minpulse": 128, "policy": "store-and-forward"}, "no minpulse"),
    ("flow", {"buffers": 0}, "--buffers", "from 1"),
    ("flow", {"ring": -1}, "--ring", "from 1"),
    ("flow", {"policy": "adptive"}, "policy 'adptive'", "'adaptive'"),
    ("flow", {"topology": "ring"}, "topology 'ring'", "crossbar, pair, trunk"),
    ("flow", {"topology": "pair", "nodes": 4}, "topology 'pair'", "2 nodes"),
    ("flow", {"nodes": 3}, "--nodes", "even"),
    ("flow", {"assignments": ["pio_read"]}, "COST=VALUE"),
    ("flow", {"assignments": ["pio_reed=1us"]}, "'pio_reed'", "'pio_read'"),
    ("flow", {"assignments": ["link_per_byte=6us"]}, "6.25ns/B"),
    ("flow", {"assignments": ["pio_read=fast"]}, "2us"),
    ("flow", {"assignments": ["pio_read=-1us"]}, "from 0 to 4611686018427387904 ps"),
    ("sweep", {"grids": []}, "empty"),
    ("sweep", {"grids": ["entries"]}, "KEY=V1,V2"),
    ("sweep", {"grids": ["=4"]}, "KEY=V1,V2"),
    ("sweep", {"grids": ["entries="]}, "no values"),
    ("sweep", {"grids": ["entries=64,,128"]}, "missing"),
    ("sweep", {"grids": ["entires=64"]}, "'entries'"),
    ("sweep", {"grids": ["zzzz=64"]}, "costs.NAME"),
    ("sweep", {"grids": ["costs.ni_chek=1us"]}, "'costs.ni_check'"),
    ("sweep", {"grids": ["ways=1", "ways=2"]}, "twice"),
    ("sweep", {"grids": ["page_size=4096,4KiB"]}, "'4KiB'", "twice"),
    ("sweep", {"grids": ["platform=linux-host,linux-host"]}, "twice"),
    ("sweep", {"grids": ["entries=64,65"]}, "--grid entries=65", "power of two"),
    ("sweep", {"grids": ["replacement=lur"]}, "'lru'"),
    ("sweep", {"grids": ["victim_entries=4"]}, "'victim_entries'"),
    (
        "sweep", {"grids": ["scheme=utlb,interrupt", "prefetch=2"]},
        "scheme 'interrupt'", "'prefetch'",
    ),
    ("sweep", {"grids": ["scheme=pinned"]}, "area_bytes"),
    ("sweep", {"grids": ["scheme=utl"]}, "'utlb'"),
    ("sweep", {"grids": ["platform=utlb-prototyp"]}, "'utlb-prototype'"),
    ("sweep", {"grids": ["costs.ni_check=3"]}, "a time"),
    ("sweep", {"grids": ["entries=2,4", "ways=4"]}, "entries=2 ways=4"),
    ("sweep", {"grids": ["costs.ni_table_read=1us"], "design": "via-static"}, "--platform"),
]  # fmt: skip


@pytest.mark.parametrize("row", QUESTIONS, ids=lambda row: " ".join([row[0], *row[2:]]))
def test_a_question_that_makes_no_sense_is_answered_in_one_line(row):
    study, options, *facts = row
    with refused(NicscopeError, *facts):
        STUDIES[study](**options)


def limits(path):
    return ns.rdma.plan("1GiB", limits=str(path))


def hypothesis(path):
    return ns.rdma.explain("1GiB", hypothesis=str(path))


def sizes(path):
    return ns.rdma.register(regions=path)


def ranges(path):
    return ns.rdma.register(regions=path, cache="range")


def sizes_and_a_size(path):
    return ns.rdma.register("1GiB", regions=path)


def name_of(load):
    return load.args[0] if isinstance(load, partial) else load.__name__


NANOSECONDS = 'post = { value = 3, unit = "ns"'
STATED = 'evidence = "assumed", source = "a" }'
REGISTERING = (toml_files.CATALOG / "registrations" / "connectx.toml").read_text()
FILES = [
    (load_nic_costs, "", "[costs]"),
    (load_nic_costs, "[costs]\npots = 1", "'pots'", "'post'"),
    (load_nic_costs, "[costs]\npost = 3", "costs.post", "table"),
    (load_nic_costs, f"[costs]\n{NANOSECONDS} }}", "costs.post", "evidence"),
    (load_nic_costs, f"[costs]\n{NANOSECONDS}, {STATED}", "doorbell", "not stated"),
    (load_registration_costs, "", "[costs]"),
    (load_registration_costs, "[costs]\npins = 1", "'pins'", "'pin'"),
    (load_registration_costs, "[costs]\nregion = 3", "costs.region", "table"),
    (load_registration_costs, '[costs]\nregion = { value = 3, unit = "h" }', "us, ms", "'h'"),
    (load_registration_costs, '[costs]\nregion = { value = [3, 1], unit = "us" }', "least", "most"),
    (load_registration_costs, '[costs]\nregion = { value = 3, unit = "us" }', "evidence"),
    (
        load_registration_costs, f'[costs]\nregion = {{ value = 3, unit = "us", {STATED}',
        "fault", "not stated",
    ),
    (
        load_registration_costs, f'{REGISTERING}\n[pages.3MiB]\npin = 3',
        "pages.3MiB", "fault, pin", "2MiB",
    ),
    (load_registration_costs, f"{REGISTERING}\n[pages.2MiB]\nzero = 3", "pages.2MiB", "'zero'"),
    (load_registration_costs, f"{REGISTERING}\n[pages.2MiB]\npin = 3", "pages.2MiB.pin", "table"),
    (load_registration_costs, f"{REGISTERING}\n[copying.extra]", "'extra'", "start"),
    (load_registration_costs, f"pages = 3\n{REGISTERING}", "pages", "tables"),
    (limits, "", "[limits]", "region_bytes", "entries"),
    (limits, "[limits]\nbytes = 1", "'bytes'"),
    (limits, "[limits]\nentries = 3", "limits.entries", "1 or more"),
    (limits, "[limits]\nentries = { value = 3 }", "limits.entries", "evidence"),
    (hypothesis, "", "threshold", "of, from, evidence, source"),
    (hypothesis, "[threshold]\nof = 3", "of", "bytes or entries"),
    (hypothesis, '[threshold]\nof = "bytes"\nfrom = 3', "threshold", "evidence"),
    (hypothesis, "why = 3", "'why'"),
    (sizes, "1GiB\nmuch\n", "line 2", "'much'"),
    (sizes, "bytes,address\n4K\n", "line 2", "1 cells"),
    (sizes, "bytes,address\n4K,here\n", "line 2", "'here'"),
    (sizes, "address,bytes\n0x10,few\n", "line 2", "'few'"),
    (sizes, "address,bytes\n", "no region"),
    (sizes_and_a_size, "1GiB\n", "leave 1GiB out"),
    (ranges, "bytes\n4K\n", "column address", "--cache range"),
    (ranges, "address,bytes\n0xfffffffffffff000,8K\n", "last address"),
]  # fmt: skip


@pytest.mark.parametrize("row", FILES, ids=lambda row: f"{name_of(row[0])} {' '.join(row[2:])}")
def test_a_file_of_ones_own_is_checked(row, tmp_path):
    load, text, *facts = row
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with refused(
        PlatformError if load in (load_nic_costs, load_registration_costs) else NicscopeError,
        path.name,
        *facts,
    ):
        load(path)
