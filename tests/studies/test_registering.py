"""``nicscope rdma register``: what registering memory takes, against what was published of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nicscope as ns
from nicscope.config import toml_files
from nicscope.config.costs import load_registration_costs
from nicscope.errors import NicscopeError
from nicscope.reports.printing import lines_of
from nicscope.studies import registering
from refusals import refused

GB = 10**9


def ways(*words, **options):
    return ns.rdma.register(*words, **options).as_json()["registrations"]


def printed(found):
    """All that is below the answer, in one line."""
    return " ".join(" ".join(map(str, lines_of(found.parts(), 120))).split())


def test_the_parts_are_counts_times_costs_and_add_up():
    costs = load_registration_costs("connectx")

    [one] = ways("1GiB", page="2M", nics=4, threads=2, regions=8)

    assert (one["pages"], one["table_bytes"]) == (512, 4_096)
    for end in (0, 1):

        def each(name, end=end):
            return costs.each(name, 2 << 20)[end] * 1e-6

        expected = {
            "regions": 8 * 4 * each("region"),
            "touching": (512 * each("fault") + each("zero")) / 2,
            "pinning": 512 * each("pin") / 2,
            "NICs": 512 * 4 * each("entry"),
            "backlog": 0.0,
        }
        found = {name: ends[end] for name, ends in one["parts_s"].items()}
        assert found == pytest.approx(expected)
        assert one["total_s"][end] == pytest.approx(sum(expected.values()))
        assert one["deregister_s"][end] == pytest.approx(512 * 4 * each("deregister_entry"))


def test_threads_share_out_the_hosts_part_and_nics_at_once_theirs():
    one, more, together = (
        ways(64 * GB, page="4K", nics=8, threads=threads, at_once=at_once)[0]
        for threads, at_once in ((1, "no"), (4, "no"), (1, "yes"))
    )

    parts = {"touching": (4, 1), "pinning": (4, 1), "NICs": (1, 8), "regions": (1, 8)}
    for part, (by_threads, by_nics) in parts.items():
        for end in (0, 1):
            before = one["parts_s"][part][end]
            assert more["parts_s"][part][end] == pytest.approx(before / by_threads)
            assert together["parts_s"][part][end] == pytest.approx(before / by_nics)
    [there] = ways("1GiB", page="4K", touched="yes")  # memory that is there
    assert there["parts_s"]["touching"] == [0.0, 0.0]


def test_what_was_measured_of_500_gb_at_8_nics_lies_within():
    # Mooncake, issue 855: 49.2 s, at once 11.66 s; deregistered in 11.75 and 1.46 s.  The costs are
    # derived from these, so it shows no more than that the parts are shared out as they were.
    one, together = ways(500 * GB, page="4K", nics=8, touched="yes", at_once=["no", "yes"])

    assert one["total_s"][0] == pytest.approx(49.2, rel=0.02)
    assert together["total_s"][0] == pytest.approx(11.66, rel=0.06)
    assert one["deregister_s"][0] == pytest.approx(11.75, rel=0.01)
    assert together["deregister_s"][0] == pytest.approx(1.46, rel=0.02)


def test_the_smallest_first_waits_less_for_what_is_registered_already(tmp_path):
    sizes = [1, 2, 3, 10]  # GiB
    (tmp_path / "sizes.txt").write_text("3GiB\n1GiB # first\n\n10GiB\n2GiB\n")

    found = {
        order: ways(regions=tmp_path / "sizes.txt", order=order, page="2M", costs="efa-gpu")[0]
        for order in ("given", "ascending", "descending")
    }

    def waited(order):
        return sum(sum(order[:place]) for place in range(4)) * 0.26

    assert found["given"]["total_s"] == pytest.approx([waited([3, 1, 10, 2])] * 2)
    assert found["ascending"]["total_s"] == pytest.approx([waited(sizes)] * 2)
    assert found["descending"]["total_s"] == pytest.approx([waited(sizes[::-1])] * 2)


def test_the_answer_says_what_limits_are_passed_and_what_shortens_it():
    told = " ".join(ns.rdma.register("200GiB", page="4K", costs="efa-gpu").summary())
    assert "a region has 214,748,364,800 bytes, and may have 192,000,000,000" in told
    assert "a NIC needs 52,428,800 entries, and has some 24,000,000" in told
    assert "Beyond" not in " ".join(ns.rdma.register("1GiB", page="2M", costs="efa-gpu").summary())
    told = " ".join(
        ns.rdma.register("1TiB", nics=8, page="4K,2M", touched="no,yes", threads="1,8").summary()
    )
    assert told.startswith("Registering 1 TiB in pages of 4 KiB, never touched, at 8 NICs, one ")
    assert "The shortest is pages of 2 MiB, memory touched before and 8 threads: " in told


def test_what_touches_is_registered_as_one(tmp_path):
    path = tmp_path / "tensors.csv"
    rows = ["address,bytes", "0x3000,8K", "0x1000,4K", "0x2000,4K", "0x9000,4K", "0x9000,4K"]
    path.write_text("\n".join(rows))

    found = ns.rdma.register(regions=path, cache="none,exact,range", page="4K").as_json()

    sizes = [(one["regions"], one["bytes"]) for one in found["registrations"]]
    assert sizes == [(5, 24 << 10), (4, 20 << 10), (2, 20 << 10)]
    with refused(NicscopeError, "--cache", "'rangy'", "'range'"):
        ns.rdma.register(regions=path, cache="rangy")


@given(lines=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12)), min_size=1, max_size=12))
def test_ranges_are_the_bytes_that_are_listed_run_by_run(lines):
    # The slow way: every byte that is listed, and where one follows that is not.
    listed = {byte for at, size in lines for byte in range(at, at + size)}
    runs = []
    for byte in sorted(listed):
        if runs and byte == runs[-1][-1] + 1:
            runs[-1].append(byte)
        else:
            runs.append([byte])
    regions = [registering.Region(at, size) for at, size in lines]

    assert registering.registered(regions, "range", "here") == [len(run) for run in runs]
    assert len(registering.registered(regions, "exact", "here")) == len(set(lines))


def test_joining_a_list_is_told_first_and_named_in_each_row(tmp_path):
    path = tmp_path / "tensors.csv"
    path.write_text("\n".join(["address,bytes", *(f"{n << 26:#x},64MiB" for n in range(1000))]))

    gpu = ns.rdma.register(regions=path, cache="none,range", page="64K", costs="connectx-gpu")
    host = ns.rdma.register(regions=path, cache="none,range", page="4K")

    # 1,000 calls of 1.9 ms, and 1,024,000 pages of 64 KiB at 0.0194 us, once each.
    assert gpu.summary()[0] == (
        "Register what touches or overlaps as one range: 1 region takes 21.8 ms, 1,000 regions "
        "1.92 s."
    )
    assert host.summary()[0].startswith("How regions are joined hardly matters here: 1 region ")
    assert [one["cache"] for one in gpu.as_json()["registrations"]] == ["none", "range"]
    assert "cache page" in printed(gpu)
    assert "cache page" not in printed(ns.rdma.register("1GiB"))


def test_one_report_of_a_gpu_comes_out_again():
    # NIXL, issue 1498, from which the costs are: 2.4 s for 1,265 tensors, 17 ms as one range.
    for regions, seconds in ((1265, 2.4), (1, 0.017)):
        [one] = ways(51 * GB, regions=regions, page="64K", costs="connectx-gpu")
        assert one["total_s"][0] == one["total_s"][1] == pytest.approx(seconds, rel=0.02)


@given(
    st.integers(1, 1024),
    st.integers(1, 1024),
    st.sampled_from(["no", "yes"]),
    st.sampled_from(["4K", "2M"]),
)
def test_more_threads_never_take_longer_and_more_nics_never_less(nics, threads, at_once, page):
    def took(nics, threads):
        [one] = ways("64GiB", page=page, nics=nics, threads=threads, at_once=at_once)
        assert one["total_s"][0] <= one["total_s"][1]
        return one["total_s"]

    for end in (0, 1):
        least = 1 - 1e-12  # of sums in another order
        assert took(nics, threads)[end] * least <= took(nics, max(1, threads // 2))[end]
        assert took(max(1, nics // 2), threads)[end] * least <= took(nics, threads)[end]


def test_a_larger_page_has_its_own_price_where_the_file_has_one(tmp_path):
    text = (toml_files.CATALOG / "registrations" / "connectx.toml").read_text()
    pin = 'value = [3, 5], unit = "us", evidence = "assumed", source = "assumed: here" }'
    path = tmp_path / "mine.toml"
    path.write_text(text.replace("[measured]", f"[pages.2MiB]\npin = {{ {pin}\n\n[measured]"))

    found = ns.rdma.register("1GiB", page="4K,64K,2M,1G", touched="yes", costs=str(path))

    pinning = [one["parts_s"]["pinning"] for one in found.as_json()["registrations"]]
    # A page of 4 KiB takes 0.047 to 0.052 us; up to 16 of them are in one of 64 KiB.
    small = [(1 << 18) * 0.047e-6, (1 << 18) * 0.052e-6]
    assert pinning == [
        pytest.approx(small),
        pytest.approx([small[0] / 16, small[1]]),
        pytest.approx([512 * 3e-6, 512 * 5e-6]),
        pytest.approx([3e-6, 512 * 5e-6]),
    ]
    rows = found.as_json()["registrations"]
    assert [one["extrapolated"] for one in rows] == [[], ["page"], [], ["page"]]
    assert found.as_json()["evidence"]["pin of 2MiB"]["evidence"] == "assumed"
    entering = [one["parts_s"]["NICs"][1] * 1e6 for one in rows]  # by entries, whatever they map
    assert entering == pytest.approx([0.35 * pages for pages in (1 << 18, 1 << 14, 512, 1)])


def test_beyond_what_was_measured_the_high_end_gains_nothing_and_that_is_told():
    at, beyond = (
        ns.rdma.register("64GiB", page="4K", nics=nics, threads=threads, at_once="yes")
        for nics, threads in ((8, 16), (16, 64))
    )

    [known], [further] = (one.as_json()["registrations"] for one in (at, beyond))
    assert known["extrapolated"] == []
    assert further["extrapolated"] == ["nics", "threads"]
    for part, low, high in (("touching", 1 / 4, 1), ("pinning", 1 / 4, 1), ("NICs", 1, 2)):
        assert further["parts_s"][part] == pytest.approx(
            [known["parts_s"][part][0] * low, known["parts_s"][part][1] * high]
        )
    assert "Extrapolated" not in printed(at)
    told = printed(beyond)
    assert "Extrapolated: costs are known of up to 8 NICs and 16 threads. Of more," in told
