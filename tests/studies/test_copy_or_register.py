"""``nicscope rdma copy``: below which size a buffer is copied, against every size one by one."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nicscope as ns
from nicscope.config.costs import load_registration_costs
from nicscope.errors import NicscopeError
from nicscope.studies.registering import Against, first_size, last_size
from oracle import copy_or_register as twin
from refusals import refused

GIB = 1 << 30
FEW = st.integers(0, 12)
MOST = 600  # bytes, beyond the last change of any of these


@given(start=FEW, byte=FEW, call=FEW, each=FEW, page=st.sampled_from((1, 2, 4)))
def test_the_thresholds_are_those_of_every_size_one_by_one(start, byte, call, each, page):
    one = Against(Fraction(start), Fraction(byte), Fraction(call), Fraction(each), page)

    pays = twin.sizes(start, byte, call, each, page, MOST)

    assert first_size(one) == twin.first(pays)
    assert last_size(one) == twin.surely(pays)


def test_it_pays_within_a_page_and_not_at_the_beginning_of_the_next():
    # A copy of n takes n, a registration 6 and 3 for each page of 4: 9, 12, 15, ... 3 k + 6.
    one = Against(Fraction(0), Fraction(1), Fraction(6), Fraction(3), 4)

    # 12 bytes are 3 pages, which take 15; 20 are 5 and take 21, 24 are 6 and take 24.
    assert first_size(one) == 24
    # 25 are 7 and take 27, 29 are 8 and take 30; 33 are 9 and take 33, and so on.
    assert last_size(one) == 30


def test_ucx_plans_nearly_the_same_with_its_own_numbers(tmp_path):
    # ucp_ep_config_get_zcopy_auto_thresh: overhead / (1 / bcopy_bw - growth), less the link's.
    overhead, growth, bandwidth = 16e-6, 0.06e-9, 7000 * 2**20
    planned = overhead / (1 / bandwidth - growth)
    source = 'evidence = "assumed", source = "ucx plans so" }'
    absent = ("fault", "zero", "pin", "deregister_entry", "backlog", "lookup")
    path = tmp_path / "ucx.toml"
    path.write_text(
        f'[costs]\nregion = {{ value = 16, unit = "us", {source}\n'
        f'entry = {{ value = 0.24576, unit = "us", {source}\n'
        f'[copying]\nstart = {{ value = 0, unit = "us", {source}\n'
        f'bytes = {{ value = {1024 / 7}, unit = "ms/GiB", {source}\n'
        "[not_applicable]\n" + "".join(f'{name} = "not planned"\n' for name in absent)
    )

    [one] = ns.rdma.copy(page="4K", reuse=1, costs=str(path)).as_json()["thresholds"]

    # UCX counts bytes; here a page that has begun is a whole one, so that up to 4,095 are more.
    assert planned <= one["copy_below"] <= planned + 4096
    assert one["register_from"] <= planned + 4096 * growth / (1 / bandwidth - growth)


def test_reuse_shares_out_the_registration_and_looks_it_up_each_time():
    costs = load_registration_costs("connectx")

    once, often = ns.rdma.copy(page="4K", reuse="1,10", nics=2).as_json()["thresholds"]

    for end in (0, 1):

        def each(name, end=end):
            return costs.each(name)[end]

        pages = 256  # of 1 MiB
        calls = 2 * each("region")
        calls += pages * (each("pin") + 2 * (each("entry") + each("deregister_entry")))
        assert once["registering_us"][end] == pytest.approx(calls)
        assert often["registering_us"][end] == pytest.approx(calls / 10 + each("lookup"))
        assert once["copying_us"][end] == pytest.approx(0.005 + 146.3e3 / 1024)
    assert often["copy_below"] < once["copy_below"]
    assert often["register_from"] is not None


def test_what_calibrate_measures_of_copying_is_what_copy_takes(tmp_path):
    found = ns.rdma.calibrate(memory="4MiB", seconds=0.1)
    found.save(tmp_path)

    copied = ns.rdma.copy(page="4K", reuse=1, costs=str(tmp_path / "registration.toml"))

    assert copied.as_json()["evidence"]["copying bytes"]["evidence"] == "measured"
    [one] = copied.as_json()["thresholds"]
    span = found.found.measured["copy"].span
    assert one["copying_us"] == pytest.approx([0.005 + 256 * end for end in span], rel=1e-4)


def test_costs_that_say_nothing_of_copying_are_refused():
    with refused(NicscopeError, "--costs efa-gpu", "[copying]", "connectx"):
        ns.rdma.copy(costs="efa-gpu")


def test_the_answer_says_below_what_to_copy_and_from_what_to_register():
    told = ns.rdma.copy().summary()

    assert told[0] == (
        "Copy below 141.2 KiB and register from 600.7 KiB on, with pages of 4 KiB and each "
        "registration used once."
    )
    assert "Between these" in told[1]
    assert "used 100 times" in told[2]
    [never] = ns.rdma.copy(page="4K", reuse=1, nics=8).summary()
    assert never.startswith("Copy below 7.9 MiB, and maybe beyond, with pages of 4 KiB and each ")
