"""``nicscope rdma connections``: queue pairs and outstanding operations of one NIC."""

import json

import pytest

import nicscope as ns
from nicscope.cli.app import main
from nicscope.config.costs import COUNTS, NIC_COSTS, RATES, load_nic_costs, nic_names
from nicscope.errors import PlatformError
from nicscope.studies.rates import Asked, Found, Rate, cliff_of, measure
from refusals import refused

FEW = {"threads": 2, "outstanding": 4}


def asked(**changes):
    usual = Asked("read", 2, 2, 4, 16, "own", "random")
    return usual._replace(**changes)


def test_the_rate_of_what_waits_alone_is_one_over_its_round_trip():
    nic = load_nic_costs("connectx-6")

    rate = measure(asked(threads=1, queue_pairs=1, outstanding=1), nic, 0)

    parts = ("post", "doorbell", "fetch", "fetch_latency", "execute_read", "answer", "completion")
    assert rate.millions == pytest.approx(1e3 / sum(nic.cost(part, 0) for part in parts), rel=1e-3)
    assert rate.bound_by == "outstanding"


def test_more_queue_pairs_than_contexts_lose_what_fetching_them_takes():
    nic = load_nic_costs("connectx-6")
    crowded = asked(threads=4, outstanding=16, queue_pairs=64)

    kept = measure(crowded, nic, 0, contexts=64)
    lost = measure(crowded, nic, 0, contexts=4)

    assert kept.context_misses == 0
    assert lost.context_misses > 0.5
    assert lost.millions < kept.millions
    assert lost.bound_by == "contexts"


def test_a_window_of_one_read_binds_a_queue_pair_and_no_write():
    report = ns.rdma.connections(qps=2, operation="read,write", read_window="1,16", **FEW)

    narrow, wide, write = report.as_json()["runs"]  # writes have no window, so there is one of them
    assert (narrow["window"], wide["window"], write["operation"]) == (1, 16, "write")
    assert narrow["low"]["bound_by"] == "read window"
    assert narrow["low"]["millions"] < wide["low"]["millions"]
    assert wide["low"]["millions"] == pytest.approx(write["low"]["millions"], rel=0.05)


def test_registers_of_a_context_are_shared_by_all_but_four_queue_pairs():
    nic = load_nic_costs("connectx-6")
    crowd = asked(threads=32, queue_pairs=32, outstanding=2, doorbells="context")

    shared, own = measure(crowd, nic, 0), measure(crowd._replace(doorbells="own"), nic, 0)
    few = measure(crowd._replace(threads=4, queue_pairs=4), nic, 0)

    assert own.shares["locked"] == few.shares["locked"] == 0
    assert shared.shares["locked"] > 0.1
    assert shared.millions < own.millions


def test_a_cliff_is_behind_the_best_and_below_95_percent_of_it():
    def at(millions):
        rate = Rate(millions, 1.0, 0.0, 0.0, dict.fromkeys(("executing",), 1.0))
        return Found(asked(), rate, rate)

    line = [at(50), at(100), at(96), at(94), at(20)]

    assert cliff_of(line) == (line[2], line[3])
    assert cliff_of(line[:3]) == (line[2], None)


def test_the_answer_says_what_is_best_and_where_it_falls(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(load_text("connectx-6").replace("value = [450, 5592]", "value = [8, 8]"))

    told = " ".join(
        ns.rdma.connections(qps="8,64", threads=8, outstanding=8, nic=str(path)).summary()
    )

    assert told.startswith("8 queue pairs and 8 outstanding reads of each of 8 threads reach")
    assert "falls beyond 8 queue pairs: with 64 it is" in told
    assert "queue pair contexts miss in the NIC's cache" in told


def load_text(name):
    from nicscope.config import toml_files

    return (toml_files.CATALOG / "nics" / f"{name}.toml").read_text()


def test_the_command_prints_json_and_keeps_table_and_figure(tmp_path, capsys):
    words = ["rdma", "connections", "--qps", "2,4", "--threads", "2", "--outstanding", "4"]

    assert main([*words, "--json", "--out", str(tmp_path / "found")]) == 0

    found = json.loads(capsys.readouterr().out)
    assert [one["queue_pairs"] for one in found["runs"]] == [2, 4]
    assert found["evidence"]["contexts"]["evidence"] == "assumed"
    names = {path.name for path in (tmp_path / "found").iterdir()}
    kept = {f"connections.{kind}" for kind in ("parquet", "png", "svg")}
    assert names == {"results.json", *kept}


def test_every_cost_of_every_nic_is_stated_or_says_why_it_is_not():
    for name in nic_names():
        nic = load_nic_costs(name)
        stated = {*nic.costs}
        assert stated | {*nic.not_applicable} == {*NIC_COSTS, *COUNTS, *RATES}
        assert stated == set(nic.origins)


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ('value = 170, unit = "ns"', 'value = 1, unit = "h"', "'h'; choose from ns, us"),
        *[
            ("value = 1024", f"value = {value}", "work_requests")
            for value in ("[3, 1]", "-1", "1.5", '"many"', "[1, 2, 3]")
        ],
    ],
)
def test_costs_have_a_unit_of_time_and_counts_are_whole_numbers_or_two_of_them(
    tmp_path, old, new, fact
):
    path = tmp_path / "mine.toml"
    path.write_text(load_text("connectx-6").replace(old, new))
    with refused(PlatformError, fact):
        load_nic_costs(path)


def test_a_sum_of_outstanding_operations_is_shared_in_both_ways_where_it_does_not_suffice():
    [enough, equal, common, few] = ns.rdma.connections(
        qps=4, threads="2,4,8", outstanding=3, outstanding_sum=7
    ).as_json()["runs"]

    shared = [(one["threads"], one["sharing"]) for one in (enough, equal, common, few)]
    assert shared == [(2, "enough"), (4, "equal"), (4, "common"), (8, "common")]
    nic = load_nic_costs("connectx-6")
    for one, like in (
        (enough, asked(threads=2, queue_pairs=4, outstanding=3)),
        (equal, asked(threads=4, queue_pairs=4, outstanding=1)),
    ):
        assert one["low"]["millions"] == measure(like, nic, 1).millions
    # Whoever is first takes what another leaves, so more are outstanding.
    assert equal["low"]["millions"] < common["low"]["millions"] < few["low"]["millions"]


def test_the_answer_says_how_a_sum_is_shared_best_and_what_the_other_way_gives():
    told = ns.rdma.connections(qps=8, threads=8, outstanding=4, outstanding_sum="8,16").summary()

    assert told[0].startswith(
        "8 queue pairs and up to 4 outstanding reads of each of 8 threads, 16 in all at most, "
        "first come, first served, reach "
    )
    assert told[1].startswith("Shared in equal parts the rate is ")
    assert told[2].startswith("Of 8 in all the best are 8 threads and 8 queue pairs, ")
    assert "in all" not in " ".join(ns.rdma.connections(qps=8, threads=2, outstanding=4).summary())
