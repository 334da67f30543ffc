"""The questions of somebody who knows RDMA, as docs/rdma-questions.md has them, on small input.

Each command runs as it is written there; its first sentence answers, and its numbers are those that
arithmetic by hand gives of what is published.
"""

import json

import pytest
from trace_files import write

from nicscope.cli.app import main

GIB, MIB = 1 << 30, 1 << 20
PAGE = 4096
BLOCK_TOKENS = 512


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """1,024 buffers of 4 bytes, 8 apart: 2 pages, by one process."""
    many = 1024
    return write(
        tmp_path_factory.mktemp("ten") / "strided.parquet",
        count=many,
        node=[0] * many,
        pid=[1] * many,
        op=["send"] * many,
        address=[0x10000 + 8 * place for place in range(many)],
        length=[4] * many,
    )


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Two requests of a language model's service, the second with the prefix of the first."""
    path = tmp_path_factory.mktemp("ten") / "service.jsonl"
    rows = [
        {"timestamp": 0, "input_length": 512, "output_length": 8, "hash_ids": [0]},
        {"timestamp": 9, "input_length": 1024, "output_length": 8, "hash_ids": [0, 1]},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def asked(capsys):
    """Runs a command; what it answers in words, and as JSON."""

    def ask(line, *words):
        command = [*line.split(), *map(str, words)]
        assert main(command) == 0
        text = capsys.readouterr().out
        assert main([*command, "--json"]) == 0
        return " ".join(text.split()), json.loads(capsys.readouterr().out)

    return ask


def test_1_how_long_to_register_my_pool_and_what_shortens_it(asked):
    told, found = asked(
        "rdma register --bytes 1TiB --page 4k,64k,2M,1G --nics 8 --threads 1,8 --touched no,yes"
    )
    assert "Registering 1 TiB in pages of 4 KiB, never touched, at 8 NICs" in told
    assert "The shortest is pages of 1 GiB, memory touched before and 8 threads" in told
    first = found["registrations"][0]
    pages = 1 << 28
    assert first["table_bytes"] == 2 * GIB
    # fault, pin and 8 entries of each page; a tenth of a second to zero each GiB; 8 calls
    by_hand = pages * (0.25 + 0.047 + 8 * 0.044) * 1e-6 + 1024 * 0.1 + 8 * 16e-6
    assert first["total_s"][0] == pytest.approx(by_hand)
    evidence = {one["evidence"] for one in found["evidence"].values()}
    assert evidence == {"published", "derived", "assumed"}
    assert "icm_consumption" in told


def test_2_why_i_lost_a_third_above_4_gib(asked):
    told, found = asked(
        "rdma explain --mr 24GiB --slices 1,3.5GiB --stack ucx:1.19 --hypothesis ksm,table,pool "
        "--fast 9.24 --slow 6.00"
    )
    assert "The most likely cause is an indirect key over chunks (ksm)" in told
    assert "UCX_IB_REG_MT_THRESH=inf" in told
    assert "Indirect Memory Key Access (Neo-Host), tpt_indirect_mem_key (FreeBSD)" in told
    assert found["likeliest"] == "ksm"
    assert found["lost_us_per_4_kib"] == pytest.approx(0.24, abs=0.005)


def test_3_which_page_size_i_need(asked, trace):
    told, found = asked("size", trace, "--page", "4k,2M,1G", "--target-miss", "1%")
    assert "Pages of 4 KiB need fewest: 1 entry for at most 1 % of lookups that miss." in told
    assert "l0_mtt_miss" in told
    first = found["targets"][0]
    assert (first["lookups"], first["touched_pages"], first["entries"]) == (1024, 2, 1)


def test_4_how_to_split_under_limits(asked):
    told, found = asked(
        "rdma plan --pool 789GiB --max-mr 512GiB --max-entries 24M --kv-block 2MiB --page 2M"
    )
    assert "789 GiB in pages of 2 MiB fit as 2 regions of 394.5 GiB" in told
    [one] = found["plans"]
    assert one["entries"] == 789 * GIB // (2 * MIB)


def test_5_why_so_little_of_the_link(asked, service, tmp_path, capsys):
    made = {}
    for layout, slices in (("layer", "whole"), ("block", "64K")):
        path = tmp_path / f"{layout}.parquet"
        words = ["--model", "llama-3-70b", "--tp", "8", "--layout", layout, "--slice", slices]
        assert main(["trace", "convert", str(service), str(path), *words]) == 0
        capsys.readouterr()
        made[layout] = asked("rdma descriptors", path, "--engine", "nixl,mooncake")
    # 320 KiB a token at 8 ranks; 512 tokens are 20 MiB, in pages of 16 tokens 4 KiB of each of
    # 80 layers' keys and values.  Written: blocks 0 and 1; read: block 0.
    blocks = 3
    descriptors = {
        (layout, one["engine"]): (one["descriptors"], one["byte_count"])
        for layout, (_, found) in made.items()
        for one in found["transfers"]
    }
    whole = blocks * 20 * MIB
    assert descriptors["layer", "nixl"] == (blocks * 5120, whole)
    assert descriptors["block", "nixl"] == descriptors["block", "mooncake"] == (blocks * 320, whole)
    assert "the bottleneck is posting them" in made["layer"][0]


def test_6_per_tensor_or_one_arena(asked, tmp_path):
    path = tmp_path / "tensors.csv"
    path.write_text("address,bytes\n" + "".join(f"{n * 40 * MIB:#x},40MiB\n" for n in range(1265)))
    told, found = asked(
        "rdma register --cache none,exact,range --page 64K --costs connectx-gpu --regions", path
    )
    assert "Register what touches or overlaps as one range: 1 region takes 17.6 ms" in told
    assert [one["regions"] for one in found["registrations"]] == [1265, 1265, 1]
    # NIXL, issue 1498: 2.4 s, 17 ms as one range
    took = [one["total_s"][0] for one in found["registrations"]]
    assert took == pytest.approx([2.4, 2.4, 0.017], rel=0.05)


def test_7_whether_my_registration_cache_thrashes(asked, trace):
    told, found = asked(
        "rdma cache --policy exact,page,merge --entries 64:256 --costs connectx", trace
    )
    assert "A cache with page keys of at most 64 regions costs least: 99.8 % of requests" in told
    assert "A cache with exact keys of at most" in told
    assert "thrashes: it registers 1,024 times" in told
    counted = {(one["policy"], one["entries"]): one["registrations"] for one in found["libraries"]}
    assert counted["exact", 64] == 1024  # none covers another (libfabric, issue 12836)
    assert counted["page", 64] == 2
    assert counted["merge", 64] == 1024 * 8 // 64


def test_8_whether_odp_would_do_instead_of_pinning(asked, trace):
    told, found = asked("rdma odp --prefetch none,sync,async --fault-bytes 4KiB", trace)
    ways = {one["prefetch"]: one for one in found["on_demand"]}
    assert ways["none"]["counts"]["faults"] == 2
    assert ways["sync"]["counts"]["faults"] == 0
    assert "page_faults_handled" in told
    assert "requests of a node" in told


def test_9_how_many_queue_pairs_before_the_cliff(asked):
    told, found = asked(
        "rdma connections --qps 2:4 --outstanding 1:2 --threads 2 --read-window 1,16"
    )
    assert "reach" in told.split("million operations a second")[0]
    assert {one["queue_pairs"] for one in found["runs"]} == {2, 4}
    assert "outbound_pci_stalled_rd" in told


def test_11_how_to_share_a_limit_on_all_that_is_outstanding(asked):
    told, found = asked(
        "rdma connections --qps 8 --threads 4,8 --outstanding 4 --outstanding-sum 8"
    )
    assert (
        "4 outstanding reads of each of 8 threads, 8 in all at most, first come, first served"
        in told
    )
    assert "Shared in equal parts the rate is" in told
    ways = {(one["threads"], one["sharing"]): one["high"]["millions"] for one in found["runs"]}
    # Eight that wait, of a round trip that is 0.35 us of fetching a work request and 1.42 us.
    assert max(ways.values()) < 8 / (0.35 + 1.42)
    assert max(ways, key=ways.get) == (8, "common")


def test_12_what_larger_pages_save_when_registering(asked, tmp_path, capsys):
    words = ["rdma", "calibrate", "--memory", "4MiB", "--seconds", "0.1", "--out", str(tmp_path)]
    assert main(words) == 0
    capsys.readouterr()
    told, found = asked(
        "rdma register 1TiB --page 4K,2M --touched yes --costs", tmp_path / "registration.toml"
    )
    small, large = found["registrations"]
    assert large["parts_s"]["NICs"][0] * 512 == pytest.approx(small["parts_s"]["NICs"][0])
    if "pin of 2MiB" in found["evidence"]:  # where the machine gives huge pages, and may lock them
        assert found["evidence"]["pin of 2MiB"]["evidence"] == "measured"
        assert (large["extrapolated"], "Extrapolated" in told) == ([], False)


def test_14_what_relaxed_ordering_and_ats_change(asked, trace):
    told, found = asked(
        "rdma path --iommu strict,ats --atc 1,64 --page-size 4KiB --walks 1 --ordering strict",
        trace,
    )
    strict, one, many = found["paths"]
    # 1,024 buffers in two pages, one behind the other: each page is asked for once.
    assert strict["counts"]["lookups"] == 1024
    assert one["counts"]["lookups"] == many["counts"]["lookups"] == 2
    assert many["allows_gbits"]["IOMMU"][0] > strict["allows_gbits"]["IOMMU"][0]
    assert found["evidence"]["translation_request"]["evidence"] == "assumed"
    assert "64 that the NIC keeps (ATS)" in told or "1 that the NIC keeps (ATS)" in told
    assert "ordering" not in many["allows_gbits"]  # the NIC reads the memory of all of them


def test_13_below_which_size_to_copy(asked):
    told, found = asked("rdma copy --page 4K,2M --reuse 1,10")
    assert "Copy below 141.2 KiB and register from 600.7 KiB on" in told
    assert "UCX_ZCOPY_THRESH" in told
    once = found["thresholds"][0]
    # 16 us of a call, and 36 pages of 0.103 us, against 144,560 bytes at 7,000 MiB/s.
    by_hand = (16 + 36 * (0.047 + 0.044 + 0.012) - 0.005) / (146.3e3 / GIB)
    assert once["copy_below"] == pytest.approx(by_hand, abs=1)


def test_10_which_nic_and_iommu_mode(asked, trace):
    told, found = asked("rdma path --iommu off,pt,strict --page-size 4KiB", trace)
    assert "with the IOMMU off" in told
    assert "outbound_pci_stalled_wr" in told
    off, through, strict = found["paths"][:3]
    assert [off["iommu"], through["iommu"], strict["iommu"]] == ["off", "pt", "strict"]
    # 31.5 GB/s of 16 lanes, 20 to 26 bytes of header for each 256.
    by_hand = [8 * 31.5 * 256 / (256 + header) for header in (26, 20)]
    assert off["allows_gbits"]["PCIe"] == through["allows_gbits"]["PCIe"]
    assert off["allows_gbits"]["PCIe"] == pytest.approx(by_hand, rel=0.005)
    # 1,024 accesses of 4 bytes: 65 ns each, and reads of tables of 197 ns: four, then one.
    assert (strict["counts"]["misses"], strict["counts"]["reads"]) == (2, 5)
    by_hand = 8 * 4096 / (1024 * 65 + 5 * 197)
    assert strict["allows_gbits"]["IOMMU"][0] == pytest.approx(by_hand)
