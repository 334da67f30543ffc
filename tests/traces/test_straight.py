"""A language model's service read as it is: the same requests as converted."""

import inspect
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import nicscope as ns
from every_command import COMMANDS
from nicscope.cli.app import main
from nicscope.cli.arguments import Service
from nicscope.errors import TraceError
from nicscope.library.kv_cache import kv_choices
from nicscope.traces.formats import convert
from nicscope.traces.imported import Choices
from refusals import refused

LINES = [
    {"timestamp": 0, "input_length": 1_100, "output_length": 3, "hash_ids": [0, 1, 2]},
    {"timestamp": 7, "input_length": 1_024, "output_length": 3, "hash_ids": [0, 3]},
]
WORDS = ["--model", "kimi-k2", "--tp", "2", "--slice", "1MiB"]
CHOICES = {"model": "kimi-k2", "ranks": 2, "slice_bytes": "1MiB"}


@pytest.fixture
def service(tmp_path):
    path = tmp_path / "service.jsonl"
    path.write_text("\n".join(map(json.dumps, LINES)))
    return path


@pytest.fixture
def converted(service, tmp_path):
    path = tmp_path / "converted.parquet"
    convert(service, path, choices=Choices(kv=kv_choices("kimi-k2", 2, slice_bytes="1MiB")))
    return path


def test_requests_and_regions_are_those_of_the_converted_file(service, converted):
    straight, whole = ns.open_trace(service, **CHOICES), ns.open_trace(converted)

    for _ in range(2):  # as often as anybody asks
        for ours, theirs in zip(straight.read(), whole.read(), strict=True):
            assert (ours == theirs).all()
            assert ours.dtype == theirs.dtype
    assert straight.rows == whole.rows > 100
    assert straight.metadata.regions == whole.metadata.regions
    assert straight.metadata.observed == whole.metadata.observed
    small = [batch.length.size for batch in straight.batches(7)]
    assert sum(small) == straight.rows
    assert max(small) == 7
    [(requests, table)] = straight.record_batches()
    assert table.column("op").to_pylist()[0] == "serve_write"
    assert (np.asarray(table.column("length")) == requests.length).all()


@pytest.mark.parametrize(
    "words",
    [
        ["replay", "FILE", "--design", "rnic", "--page-size", "2MiB"],
        ["curve", "FILE", "--page-size", "64K", "--entries", "16..1024", "--ways", "1"],
        ["size", "FILE", "--page", "4k,2M,1G", "--target-miss", "1%"],
        ["trace", "info", "FILE", "--page-size", "2MiB"],
        ["rdma", "descriptors", "FILE"],
        ["rdma", "cache", "FILE", "--entries", "4,64"],
        pytest.param(
            ["rdma", "odp", "FILE", "--fault-bytes", "request"], marks=pytest.mark.compiled
        ),
        pytest.param(["rdma", "path", "FILE", "--walks", "1"], marks=pytest.mark.compiled),
    ],
)
def test_commands_take_it_with_a_model(service, converted, capsys, words):
    said = []
    for path, more in ((service, WORDS), (converted, [])):
        assert (
            main([str(path) if word == "FILE" else word for word in words] + [*more, "--json"]) == 0
        )
        said.append(json.loads(capsys.readouterr().out))

    def told(one):
        if isinstance(one, dict):
            left_out = ("command", "file", "trace", "name", "origin", "traces", "bytes")
            return {key: told(value) for key, value in one.items() if key not in left_out}
        return [told(each) for each in one] if isinstance(one, list) else one

    assert told(said[0]) == told(said[1])
    command = said[0].get("command") or said[0].get("repeat", {}).get("command")
    if command:
        assert {"--model", "kimi-k2"} <= {
            *(command if isinstance(command, list) else command.split())
        }


@pytest.mark.parametrize(
    "words",
    [
        ["replay", "FILE", "--design", "rnic"],
        ["curve", "FILE"],
        ["size", "FILE", "--target-miss", "1%"],
        ["trace", "info", "FILE"],
        ["rdma", "descriptors", "FILE"],
        ["rdma", "cache", "FILE"],
        ["rdma", "odp", "FILE"],
        ["rdma", "path", "FILE"],
        ["sweep", "FILE", "--design", "utlb", "--grid", "entries=4", "--out", "-"],
    ],
)
def test_without_a_model_one_line_says_what_to_do(service, capsys, words):
    assert main([str(service) if word == "FILE" else word for word in words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "--model llama-3-70b" in said.err


def test_a_sweep_takes_it_and_goes_on_with_it(service, converted, tmp_path, capsys):
    tables = []
    for path, more in ((service, WORDS), (service, WORDS), (converted, [])):
        out = tmp_path / f"{path.stem}.grid.parquet"
        words = ["sweep", str(path), "--design", "utlb", "--grid", "entries=4,64"]
        assert main([*words, "--out", str(out), *more]) == 0
        tables.append(pq.read_table(out).drop_columns(["trace"]).to_pydict())
        assert ("is there already" in capsys.readouterr().err) == (len(tables) == 2)

    assert tables[0] == tables[1] == tables[2]


def test_each_option_of_a_service_is_declared_once_for_every_command(capsys):
    takes = {name for name in COMMANDS if set(Service._fields) & set(parameters(name))}

    assert takes == {
        *("replay", "curve", "size", "sweep", "rdma descriptors", "rdma cache", "rdma odp"),
        "rdma path",
        *("trace info", "trace convert"),
    }
    for name in takes:
        assert set(Service._fields) < set(parameters(name))
        assert "service" not in parameters(name)
    assert main(["rdma", "cache", "--help"]) == 0
    assert "--tp" in capsys.readouterr().out


def parameters(name):
    return inspect.signature(COMMANDS[name].callback).parameters


def test_what_is_no_service_is_told_what_it_is(tmp_path, capsys):
    lackey = tmp_path / "run.log"
    lackey.write_text(" L 1000,8\n S 2000,8\n")

    with refused(TraceError, "lackey", "'nicscope trace convert"):
        ns.open_trace(lackey)
    for words in (
        ["curve", "bundled:redis_server", "--model", "kimi-k2"],
        ["replay", str(lackey), "--model", "kimi-k2"],
        ["curve", "bundled:redis_server", "--tp", "2"],
        ["trace", "convert", str(lackey), str(tmp_path / "o.parquet"), "--prefix", "16"],
    ):
        assert main(words) == 2
        assert "model" in capsys.readouterr().err
    assert not (tmp_path / "o.parquet").exists()


def test_a_service_without_a_full_block_holds_no_requests(tmp_path):
    path = tmp_path / "short.jsonl"
    path.write_text(json.dumps(LINES[0] | {"input_length": 5, "hash_ids": [0]}))

    with refused(TraceError, "no requests", "mooncake"):
        ns.open_trace(path, model="kimi-k2")


def test_a_pool_may_be_spelt_as_sizes_are(service):
    trace = ns.open_trace(service, model="kimi-k2", pool_bytes="100MiB", slice_bytes="whole")

    assert trace.metadata.observed["blocks_evicted"] == 1
    with refused(TraceError, "--pool"):
        ns.open_trace(service, model="kimi-k2", pool_bytes="much")
    with refused(TraceError, "no room"):
        ns.open_trace(service, model="kimi-k2", pool_bytes=1)
