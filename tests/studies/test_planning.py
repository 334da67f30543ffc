"""``nicscope rdma plan``: pools cut into regions, against a slow twin and what was published."""

from hypothesis import given
from hypothesis import strategies as st

import nicscope as ns
from nicscope.config.costs import Evidence, Limit, Origin, limit_names, load_limits
from nicscope.studies.registering import Wanted, plan_pool
from oracle import pool_plan

GIB = 1 << 30
K = 1024


@given(
    byte_count=st.integers(1, 400 * K),
    block=st.integers(1, 40 * K),
    page=st.sampled_from([4 * K, 8 * K, 16 * K]),
    most=st.integers(2 * K, 200 * K),
    entries=st.integers(1, 100),
)
def test_a_plan_has_as_few_regions_as_filling_one_after_the_other(
    byte_count, block, page, most, entries
):
    given_by_hand = Origin(Evidence.ASSUMED, "here")
    wanted = Wanted(
        byte_count,
        block,
        {"region_bytes": Limit(most, given_by_hand), "entries": Limit(entries, given_by_hand)},
    )
    twin = pool_plan.cut(byte_count, block, page, most)

    plan = plan_pool(wanted, page)

    regions = [*plan.each()]
    assert plan.regions == len(regions) == len(twin or [])
    if not regions:
        assert not plan.fits
        return
    sizes = [size for _, size in regions]
    assert sum(sizes) == sum(twin) == plan.registered
    assert byte_count - plan.registered < plan.unit
    assert max(sizes) == plan.largest <= most
    assert min(sizes) == plan.smallest >= plan.largest - plan.unit
    assert all(size % block == 0 and (size % page == 0 or not plan.is_aligned) for size in sizes)
    assert [offset for offset, _ in regions] == [sum(sizes[:n]) for n in range(len(sizes))]
    assert plan.entries == pool_plan.entries(sizes, page)
    assert plan.fits == (plan.entries <= entries)


def told(*pool, **options):
    return " ".join(ns.rdma.plan(*pool, **options).summary())


def test_the_pool_of_flexkv_fits_as_two_regions():
    # FlexKV, pull request 275: 789.375 GiB passes the 512 GiB that a region may have.
    found = ns.rdma.plan(
        "789GiB", max_mr="512GiB", max_entries="24M", kv_block="2MiB", page_size="2MiB"
    )

    [plan] = found.as_json()["plans"]
    assert (plan["regions"], plan["largest_bytes"]) == (2, 789 * GIB // 2)
    assert (plan["entries"], plan["fits"], plan["aligned"]) == (789 * 512, True, True)
    assert "fit as 2 regions of 394.5 GiB, with 403,968 entries" in " ".join(found.summary())


def test_what_a_nic_of_efa_holds_is_what_was_published_of_it():
    # Mooncake, pull request 1912: some 24 million entries are 92 GiB of 4 KiB pages.
    assert ns.rdma.plan("91GiB", limits="efa", page_size="4K").found.plans[0].fits
    said = told("93GiB", limits="efa", page_size="4K")
    assert "Pages of 4 KiB do not do: a NIC would need 24,379,392 entries" in said
    assert "enough for 91.6 GiB. Other pages would do. 93 GiB in pages of 64 KiB fit as 1" in said


def test_the_tightest_limit_holds():
    def most(**options):
        return ns.rdma.plan("1TiB", **options).found.wanted.most("region_bytes")

    assert most() is None
    assert most(limits="mooncake") == 1 << 40
    assert most(limits="mooncake,erdma") == 64 * GIB
    assert most(limits=["mooncake", "erdma"], max_mr="1GiB") == GIB
    assert most(limits="erdma", max_mr="1TiB") == 64 * GIB


def test_blocks_that_do_not_go_with_pages_and_pools_that_no_page_fits_are_told():
    said = told("789GiB", limits="ionic", kv_block="35MiB", page_size="1G")
    assert "Its regions end between blocks but within pages" in said
    assert "The last 31 MiB stay unregistered" in said
    said = told("1GiB", max_mr="1MiB", kv_block="2MiB", page_size="4K")
    assert "no region may be as large as a block" in said
    said = told("1TiB", max_entries=100, page_size="4K")
    assert "No larger page helps: share the pool out among 2,684,355 NICs" in said


def test_regions_of_a_plan_are_a_table():
    found = ns.rdma.plan("7MiB", max_mr="2MiB", kv_block="1MiB", page_size="4K")
    rows = found.table("regions").to_pylist()
    assert [row["region_bytes"] >> 20 for row in rows] == [2, 2, 2, 1]
    assert [row["offset_bytes"] >> 20 for row in rows] == [0, 2, 4, 6]
    many = ns.rdma.plan("1GiB", max_mr=4096, kv_block=512, page_size=4096)
    assert many.found.plans[0].regions == 1 << 18  # as many as there are blocks


def test_every_limit_of_the_catalog_has_a_source():
    for name in limit_names():
        limits = load_limits(name)
        assert limits.limits
        assert all(limit.origin.source for limit in limits.limits.values())
