"""Hypothesis strategies: small nasty traces, and designs so small that every path is taken."""

from hypothesis import strategies as st

from oracle.replay import PATHS, SCHEMES

PAGE_SIZES = (512, 4096)
POLICIES = ("lru", "mru", "lfu", "mfu", "random")
REGION_PAGES = 12  # the pages that one trace touches in each of its regions
LONGEST = 14  # pages of one request: more than the largest pin limit drawn below
PIDS = (0, 1, 7, 2**31 - 1)


def last_page(page_size):
    return (2**64 - 1) // page_size


def region_starts(page_size):
    """First pages of regions: zero, across the end of a second-level table, the very top."""
    return (0, 1024 - 6, 5 * 1024 - 3, last_page(page_size) - REGION_PAGES + 1)


@st.composite
def spans(draw, page_size, start):
    """An address and a length in the region that begins at page ``start``, short ones first."""
    page = start + draw(st.integers(0, REGION_PAGES - 1))
    pages = draw(st.sampled_from((1, 1, 1, 2, 2, 3, 4, 6, LONGEST)))
    pages = min(pages, last_page(page_size) - page + 1)
    head = draw(st.sampled_from((0, 0, 1, page_size // 2, page_size - 1)))
    tail = draw(st.sampled_from((page_size, page_size, 1, page_size // 2)))
    length = (pages - 1) * page_size + tail - head
    return page * page_size + head, max(length, 1)


@st.composite
def bursts(draw, page_size, starts, nodes, pids):
    """Some requests of one process: one alone, one repeated, or a walk with a stride."""
    node, pid = draw(st.sampled_from(nodes)), draw(st.sampled_from(pids))
    op = draw(st.sampled_from(tuple(PATHS)))
    address, length = draw(spans(page_size, draw(st.sampled_from(starts))))
    count = draw(st.sampled_from((1, 1, 1, 2, 3, 6)))
    stride = page_size * draw(st.sampled_from((0, 1, 2, 4, 8)))
    requests = [(node, pid, op, address + i * stride, length) for i in range(count)]
    return [request for request in requests if request[3] + request[4] <= 2**64]


@st.composite
def traces(draw, page_size=4096, max_bursts=30):
    """Rows (time_ns, node, pid, op, address, length) that revisit few pages from many sides."""
    starts = draw(st.lists(st.sampled_from(region_starts(page_size)), min_size=1, max_size=2))
    nodes = draw(st.sampled_from(((0,), (0,), (0, 1), (0, 2, 5))))
    pids = draw(st.sampled_from((PIDS[1:2], PIDS[:2], PIDS)))
    known = draw(st.lists(bursts(page_size, starts, nodes, pids), min_size=1, max_size=12))
    # Only programs that come back to their buffers show what was kept and what was thrown away.
    count = draw(st.integers(1, max_bursts))
    order = draw(st.lists(st.sampled_from(known), min_size=count, max_size=count))
    requests = [request for burst in order for request in burst]
    step = draw(st.sampled_from((0, 1, 1_000)))  # 0: the times are unknown
    return [(step * i, *request) for i, request in enumerate(requests)]


def powers_of_two(low, high):
    return st.sampled_from([2**i for i in range(16) if low <= 2**i <= high])


@st.composite
def geometries(draw, lined=False):
    """Entries up to 32, ways up to what the entries allow, and lines up to 8 if ``lined``."""
    line = draw(powers_of_two(1, 8)) if lined else 1
    entries = draw(powers_of_two(line, 32))
    shape = {"entries": entries, "ways": draw(powers_of_two(1, entries // line))}
    return {**shape, "line": line} if lined else shape


def user_level(policies):
    return {
        "prepin": st.integers(1, 8),
        "replacement": st.sampled_from(policies),
    }


def limits():
    return st.sampled_from((None, *range(1, 13)))


def parameters(scheme, policies):
    """The keys that ``scheme`` uses besides the shape of its cache, each with its values."""
    offset = {"index_offset": st.booleans()}
    cached = {**offset, "pin_limit": limits()}
    hierarchical = {**cached, **user_level(policies), "prefetch": st.integers(1, 8)}
    return {
        "pinned": {"area_bytes": st.sampled_from((1, 512, 4096, 4097, 20_000))},
        "static": {"entries": powers_of_two(1, 32)},
        "interrupt": cached,
        "unet-mm": {
            "entries": powers_of_two(1, 32),
            "victim_entries": st.integers(0, 4),
            "most_valid": limits(),
        },
        "utlb": hierarchical,
        "utlb-shared": hierarchical,
        "utlb-process": {"entries": powers_of_two(1, 32), **user_level(policies)},
        "handle": {"high_water": st.sampled_from((None, *range(1, 41)))},
        "rnic": {
            "mtu": st.sampled_from((None, 1000, 4096)),
            "indirect": st.sampled_from((None, 8 * 4096, 16 * 4096)),
            "registered": st.sampled_from((None, 1, 5 * 4096, 12 * 4096 - 1, 2**40)),
        },
    }[scheme]


# What a scheme cannot do without; every other key may be absent.
NEEDED = ("scheme", "area_bytes", "entries", "ways", "line", "victim_entries")


@st.composite
def levels(draw, line):
    """The other caches of an RDMA NIC with lines of ``line`` pages: regions, second levels."""
    regions = draw(powers_of_two(1, 8))
    found = {"mpt_entries": regions, "mpt_ways": draw(powers_of_two(1, regions))}
    if draw(st.booleans()):
        further = draw(powers_of_two(line, 64))
        found |= {"l1_entries": further, "l1_ways": draw(powers_of_two(1, further // line))}
        if draw(st.booleans()):
            return found | {"l1_shared": True}
    if draw(st.booleans()):
        own = draw(powers_of_two(1, 16))
        found |= {"mpt_l1_entries": own, "mpt_l1_ways": draw(powers_of_two(1, own))}
    return found


@st.composite
def designs(draw, scheme, policies=POLICIES):
    """A flat design of ``scheme`` that names only keys the scheme uses; None is left out."""
    design = {"scheme": scheme}
    if scheme in ("interrupt", "utlb", "utlb-shared", "handle", "rnic"):
        design |= draw(geometries(lined=scheme in ("handle", "rnic")))
    if scheme == "rnic":
        design |= draw(levels(design["line"]))
    for name, values in parameters(scheme, policies).items():
        if name in NEEDED or draw(st.integers(0, 3)):
            design[name] = draw(values)
    design["page_size"] = draw(st.sampled_from(PAGE_SIZES))
    if draw(st.booleans()):
        design["served_by"] = draw(st.sampled_from(("nic", "kernel")))
    return {name: value for name, value in design.items() if value is not None}


@st.composite
def cases(draw, schemes=tuple(SCHEMES), policies=POLICIES, max_bursts=30):
    """A trace and a design of one of ``schemes``, of one page size.

    Hypothesis clusters what it draws: a test that must meet every policy of every scheme asks
    for one scheme, and one policy, at a time.
    """
    design = draw(designs(draw(st.sampled_from(schemes)), policies))
    return draw(traces(design["page_size"], max_bursts)), design
