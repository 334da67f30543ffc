"""``nicscope flow`` as a user and as a program see it."""

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flow_samples import made_up
from nicscope.cli.app import main
from nicscope.config.design import POLICIES
from nicscope.studies import flow
from nicscope.studies.flow_parts import PART_NAMES
from pressing import interrupted

PS_PER_US = 10**6
FILES = [
    *("bandwidth.png", "bandwidth.svg", "flow.png", "flow.svg", "messages.parquet"),
    *("results.json", "timeline.json", "transfers.parquet"),
]


@pytest.fixture(autouse=True)
def lab(monkeypatch):
    """Any platform but one that the catalog would not have is made up."""
    real = flow.load_platform
    monkeypatch.setattr(
        flow, "load_platform", lambda name: made_up(name) if "lab" in name else real(name)
    )


def run(capsys, *arguments):
    assert main(["flow", "--platform", "lab", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def run_json(capsys, *arguments):
    return json.loads(run(capsys, *arguments, "--json"))


def ps(cell):
    """A cell of microseconds in picoseconds; every digit is there."""
    whole, _, fraction = cell.replace(",", "").partition(".")
    assert len(fraction) == 6
    return int(whole + fraction)


@pytest.mark.parametrize("policy", POLICIES)
def test_printed_parts_add_up_to_the_printed_latency_exactly(policy, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")  # of every column
    text = run(capsys, "--policy", policy, "--count", "6")

    lines = text[text.index("Where the latency goes") : text.index("Engines")].splitlines()
    rows = {}
    for name in [*PART_NAMES.values(), "latency"]:
        [line] = [line for line in lines if line.startswith(f"{name} ")]
        rows[name] = [ps(cell) for cell in line.removeprefix(name).split()[:3]]
    latency = rows.pop("latency")
    assert [sum(column) for column in zip(*rows.values(), strict=True)] == latency


def test_the_json_adds_up_and_names_what_was_asked(capsys):
    found = run_json(capsys, "--to", "lab2", "--count", "6", "--logging", "--gap", "50us")

    assert found["platforms"]["receiver"]["name"] == "lab2"
    assert found["traffic"] == {
        "flows": [[0, 1]],
        "payload_bytes": 8192,
        "count": 6,
        "gap_ps": 50 * PS_PER_US,
    }
    assert found["delivery"]["logging"] is True
    assert found["delivered"] == found["taken_apart"] == len(found["packets"]) == 6
    for packet in found["packets"]:
        latency = packet["read_ps"] - packet["posted_ps"]
        assert packet["latency_ps"] == latency == sum(packet["parts_ps"].values())
    for part in found["parts"]:
        each = [packet["parts_ps"][part["part"]] for packet in found["packets"]]
        assert part["total_ps"] == sum(each)
    for account in found["nic_memory"].values():
        for held in account:
            assert held["bytes"] == held["count"] * held["each_bytes"]
        assert account[-1]["what"] == "log of transfers"
    assert sum(found["log_record_bytes"].values()) == account[-1]["each_bytes"]


def test_what_repeats_the_result_does_repeat_it(capsys):
    options = [
        *["--policy", "cut-through-minpulse", "--payload", "2KiB", "--count", "3", "--gap", "9us"],
        *["--minpulse", "256", "--buffers", "2", "--ring", "4"],
        *["--max-payload", "4096", "--logging", "--topology", "trunk", "--nodes", "4"],
        *["--set", "pio_read=1us", "--set", "link_per_byte=7ns/B", "--to", "lab2"],
    ]
    first = run_json(capsys, *options)

    assert first["overridden"] == ["link_per_byte", "pio_read"]
    assert first["delivery"]["minpulse_send"] == 256
    assert first["delivery"]["minpulse_receive"] == 256
    assert main([*first["repeat"]["command"][1:], "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == first


@pytest.mark.parametrize(
    "options",
    [
        ["--count", "40", "--topology", "trunk", "--nodes", "12", "--logging"],
        ["--count", "4", "--set", "firmware_start=0.1s", "--set", "link_watchdog=100s"],
        ["--count", "2", "--set", "link_watchdog=30us"],
        ["--count", "2", "--set", "link_watchdog=1us"],
    ],
    ids=["many nodes", "slow", "broken", "aborted"],
)
def test_the_text_fits_a_hundred_columns(options, capsys):
    text = run(capsys, *options)

    assert max(map(len, text.splitlines())) <= 100
    assert "…" not in text


def test_of_many_nodes_the_engines_of_two_flows_are_told_and_the_rest_is_in_the_json(capsys):
    options = ["--nodes", "8", "--count", "2"]

    text = run(capsys, *options)
    found = run_json(capsys, *options)

    engines = text[text.index("Engines") : text.index("NIC memory")].splitlines()
    told = [line.split()[1] for line in engines if line.startswith(("netTx", "netRcv"))]
    assert told == ["0", "1", "4", "5"]
    assert "engines of the nodes of 2 more flows are in --json" in text
    assert {use["node"] for use in found["engines"]} == set(range(8))
    assert found["delivered"] == 8


def test_a_long_stream_is_condensed(capsys):
    text = run(capsys, "--count", "50")

    packets = text[text.index("Packets") : text.index("Where the latency")].splitlines()
    numbers = [line.split()[0] for line in packets[3:] if line.strip()]
    assert numbers == [*"01234567", "...", "46", "47", "48", "49"]


def test_a_log_that_is_cut_short_says_which_packets_it_tells_of(monkeypatch, capsys):
    monkeypatch.setattr("nicscope.studies.flow.MOST_RECORDS", 500)

    found = run_json(capsys, "--count", "100")
    text = run(capsys, "--count", "100")

    assert found["delivered"] == 100
    assert 10 < found["taken_apart"] < 50
    assert f"are of the first {found['taken_apart']} packets of 100" in text
    for packet in found["packets"]:
        assert packet["latency_ps"] == packet["read_ps"] - packet["posted_ps"]
        assert packet["parts_ps"]["host read"] == 3 * PS_PER_US


def test_out_holds_json_tables_figures_a_page_and_a_timeline_and_again_the_same_bytes(
    capsys, tmp_path
):
    folder, again = tmp_path / "results", tmp_path / "again"
    run(capsys, "--count", "5", "--out", again)
    printed = run_json(capsys, "--count", "5", "--out", folder)

    for file in FILES:
        assert (folder / file).read_bytes() == (again / file).read_bytes(), file
    assert sorted(file.name for file in folder.iterdir()) == FILES
    assert json.loads((folder / "results.json").read_text()) == printed
    messages = pq.read_table(folder / "messages.parquet").to_pylist()
    names = [part.name.lower() for part in PART_NAMES]
    for row, packet in zip(messages, printed["packets"], strict=True):
        assert [row[f"{name}_ps"] for name in names] == list(packet["parts_ps"].values())
        assert row["read_ps"] - row["posted_ps"] == packet["latency_ps"]
    transfers = pq.read_table(folder / "transfers.parquet").to_pylist()
    by_band = {use["band"]: use for use in printed["engines"]}
    for band in ("hostTx", "netTx", "netRcv", "hostRcv"):
        mine = [row for row in transfers if row["band"] == band]
        assert len(mine) == by_band[band]["transfers"]
        assert sum(row["moved_bytes"] for row in mine) == by_band[band]["bytes"]
    assert json.loads((folder / "timeline.json").read_text())["traceEvents"]


LABORATORY = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
from flow_samples import made_up

from nicscope.cli.app import main
from nicscope.studies import flow

begun = Path(sys.argv.pop(1))
flow.load_platform = lambda name: begun.touch() or made_up(name)
sys.exit(main(sys.argv[1:]))
"""


def test_ctrl_c_in_the_middle_of_a_long_run_leaves_nothing(tmp_path, tmp_path_factory):
    # A million packets in pieces of 128 bytes: hundreds of millions of events.
    begun = tmp_path_factory.mktemp("flow") / "begun"
    command = ["flow", "--policy", "cut-through-minpulse", "--count", "1000000", "--out"]
    laboratory = [sys.executable, "-c", LABORATORY, str(begun)]

    done = interrupted([*laboratory, *command, str(tmp_path / "results")], begun.exists, 0.5)

    assert done == (130, "", "nicscope: interrupted; nothing half-written was left\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.requirement("TR-27")
def test_another_master_on_the_bus_lengthens_what_crosses_it(capsys):
    alone = run_json(capsys, "--count", 1)
    beside = run_json(capsys, "--count", 1, "--bus-master", "1us/2us")

    assert alone["bus_master"] is None
    assert beside["bus_master"] == {"hold_ps": PS_PER_US, "period_ps": 2 * PS_PER_US}
    assert "--bus-master 1us/2us" in " ".join(beside["repeat"]["command"])
    busy = [
        {part["part"]: part["busy_ps"] for part in each["parts"]}["hostTx"]
        for each in (alone, beside)
    ]
    assert busy[0] < busy[1] <= 2 * busy[0] + 2 * PS_PER_US
