"""Every reader of a user's files: good samples of what it reads, and how it is called.

A reader is called as a user calls it, by the command where there is one.  It may succeed, or refuse
with one line that can be printed; anything else is a failure.
"""

import io
import json
import random as randoms
import struct
import tempfile
import tomllib
import zlib
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from calling import Reader, called, commanded
from program_files import GOAL, programs, read_goal_file, read_program_file

from mutation import ODD_NUMBERS, changed_tree, mutated, odd_tree, with_flips
from nicscope.config.toml_files import CATALOG
from nicscope.studies.sweep.sweeping import _Tallies
from nicscope.studies.sweep.table import (
    METADATA_KEY,
    TALLIED,
    AxisIdentity,
    Identity,
    Record,
    TraceIdentity,
    difference_of_table,
    open_journal,
)
from nicscope.traces.reader import open_trace
from nicscope.traces.schema import OP_NAMES
from nicscope.traces.writer import write_trace

HERE = Path(__file__).parent
MOST_LOOKUPS = 100_000  # that are worth a conversion of a lookup each


def _columns(count=50):
    numbers = np.arange(count)
    return {
        "time_ns": numbers * 10,
        "node": (numbers % 2).astype(np.int32),
        "pid": (7 + numbers % 3).astype(np.int32),
        "op": [OP_NAMES[i % len(OP_NAMES)] for i in range(count)],
        "address": (0x7F0000000FF0 + numbers * 4096).astype(np.uint64),
        "length": (32 + numbers).astype(np.uint32),
        "peer": [None if i % 5 else i for i in range(count)],
        "posted": (numbers + 100).astype(np.uint32),
        "note": [f"a {i % 4}" for i in range(count)],
    }


METADATA = {
    "schema": 1, "page_size": 4096, "origin": {"program": "x", "command": ["x", "-y"]},
    "regions": [{"node": 0, "address": 4096, "length": 100}], "observed": {"n": 3, "calls": {}},
}  # fmt: skip


def _parquet(table, **options):
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def _parquet_samples():
    table = pa.table(_columns()).replace_schema_metadata({"nicscope": json.dumps(METADATA)})
    options = [
        {"compression": "none", "store_schema": False},
        {"compression": "zstd", "row_group_size": 20},
        {"compression": "snappy", "use_dictionary": False, "data_page_version": "2.0"},
        {"compression": "gzip", "write_page_checksum": True, "write_page_index": True},
        {"compression": "none", "use_dictionary": ["op", "note", "length"], "version": "1.0"},
    ]
    samples = [_parquet(table, **chosen) for chosen in options]
    with tempfile.TemporaryDirectory() as folder:
        write_trace(Path(folder) / "t.parquet", table)
        return [*samples, (Path(folder) / "t.parquet").read_bytes()]


def _made_parquet(samples):
    def make(random):
        way = random.random()
        if way < 0.5:
            return with_flips(random, samples, near_end=3000)
        return mutated(random, samples, near_end=3000) if way < 0.75 else _odd_table(random)

    return make


def _odd_table(random):
    """A whole file with odd types, values, names or metadata."""
    columns = {name: list(column) for name, column in _columns(12).items()}
    kinds = [
        None, pa.int8(), pa.int64(), pa.uint64(), pa.float64(), pa.float16(), pa.string(),
        pa.large_string(), pa.bool_(), pa.decimal128(20), pa.timestamp("ns"), pa.binary(),
        pa.list_(pa.int32()), pa.dictionary(pa.int8(), pa.string()), pa.struct({"a": pa.int32()}),
        pa.string_view(), pa.dictionary(pa.int32(), pa.int64()), pa.float32(), pa.null(),
    ]  # fmt: skip
    odd = [
        0,
        -1,
        1,
        2**31,
        2**32 - 1,
        2**62,
        2**63 - 1,
        2**64 - 1,
        None,
        0.5,
        "send",
        "",
        "x" * 3000,
    ]
    arrays = {}
    for name, column in columns.items():
        kind = random.choice(kinds) if random.random() < 0.15 else None
        values = [random.choice(odd) if random.random() < 0.02 else v for v in column]
        for attempt in (values, column, [None] * len(column)):
            try:
                arrays[name] = pa.array(attempt, kind)
                break
            except (pa.ArrowException, OverflowError, TypeError, ValueError):
                kind = kind if attempt is values else None
    names = list(arrays)
    if random.random() < 0.2:
        place = random.randrange(len(names))
        names[place] = random.choice(["", "node", "a.b", "\x1b[2J", "é", "x" * 5000, '"', "op\n"])
    tree = changed_tree(random, json.loads(json.dumps(METADATA)))
    text = json.dumps(tree if random.random() < 0.5 else odd_tree(random))
    if random.random() < 0.3:
        text = mutated(random, [text.encode()])
    table = pa.Table.from_arrays(list(arrays.values()), names)
    table = table.replace_schema_metadata({"nicscope": text, "pandas": text})
    try:
        return _parquet(table, row_group_size=random.choice((5, 100)))
    except (pa.ArrowException, UnicodeEncodeError):  # what no file can hold
        return _parquet(pa.table({"time_ns": [1]}))


def _read_parquet(path, folder):
    if commanded("trace", "convert", path, folder / "o.parquet") is None:
        called(lambda: list(open_trace(path).batches()))
        return
    commanded("trace", "convert", path, folder / "o.csv")
    trace = open_trace(path)
    lookups = sum(int((batch.length // 512 + 2).sum()) for batch in trace.batches())
    if lookups < MOST_LOOKUPS:
        commanded("trace", "info", path)
        commanded("trace", "info", path, "--json")
        commanded("trace", "convert", path, folder / "o.bin.zst")


CSV = (
    b"time_ns,node,pid,op,address,length,peer,buffer,note,posted\n"
    b'0,0,7,send,0x7f0000001000,64,1,,"a, b",64\n10,1,8,recv,4096,100,,3,c,100\n\n'
    b'20,0,7,write,18446744073709551000,100,,,"he said ""x""",\n'
)
LIBCACHESIM = [
    b"time,object,size,next\n1.5,3,100,2\n2,4,200,-1\n2,4503599627370497,1,-1\n",
    b"1;3;100\n2;4;0\n2;5;4294967295\n",
    b"0\t77\t4096\n1\t78\t1\n",
]
LACKEY = [
    b"==123== Lackey, an example Valgrind tool\n==123==\nI  04000c10,3\n S 1ffefff7e8,8\n"
    b"I  04000c13,5\n L 04025e70,16\n M 1ffefff000,4\n\n==123== Counted 0 calls\n"
]
STRACE = [
    b'100   1000.000100 execve("/bin/server", ["server"], 0x7ffd0 /* 9 vars */) = 0\n'
    b"100   1000.000300 socket(AF_INET, SOCK_STREAM, IPPROTO_TCP) = 3\n"
    b"100   1000.000400 accept4(3, {sa_family=AF_INET}, [128 => 16], SOCK_CLOEXEC) = 4\n"
    b"100   1000.000500 read(0x4, 0x7f0000001000, 0x4000) = 0x4d\n"
    b"100   1000.000600 clone3({flags=CLONE_FILES|CLONE_THREAD}, 88 <unfinished ...>\n"
    b"101   1000.000650 read(0x4, 0x7f0000001000, 0x4000 <unfinished ...>\n"
    b"100   1000.000700 <... clone3 resumed> => {parent_tid=[101]}) = 101\n"
    b"101   1000.000750 <... read resumed>) = 0x10\n"
    b"100   1000.000800 writev(0x4, 0x7ffd1000, 0x2) = 0x1000\n"
    b"100   1000.001100 close(4)        = 0\n101   1000.001300 exit_group(0)   = ?\n"
    b"101   1000.001400 +++ exited with 0 +++\n",
    b"23:59:59.9 socketpair(AF_UNIX, SOCK_STREAM, 0, [3, 4]) = 0\n"
    b"00:00:00.1 write(0x3, 0x1000, 0x10) = 0x10\n"
    b"00:00:00.2 dup2(4, 9) = 9\n00:00:00.3 read(0x9, 0x1000, 0x10) = 0x10\n"
    b"00:00:00.4 sendto(0x9, 0x1000, 0x10, 0, 0, 0) = -1 EPIPE (Broken pipe)\n"
    b"[pid   201] 00:00:00.5 fcntl(3, F_DUPFD, 0) = 5\n00:00:00.6 close_range(3, 5, 0) = 0\n",
]
ORACLE = [
    b"".join(
        struct.pack("<IQIq", 5 + i // 9, i % 7 + (i % 3 << 52), 100 * i, -1) for i in range(40)
    )
]


MOONCAKE = [
    b'{"timestamp": 0, "input_length": 600, "output_length": 20, "hash_ids": [0, 1]}\n'
    b'{"timestamp": 3, "input_length": 1024, "output_length": 20, "hash_ids": [0, 2]}\n'
    b'{"timestamp": 3000, "input_length": 1536, "output_length": 1, "hash_ids": [0, 2, 5]}\n',
    b'{"hash_ids": [], "timestamp": 1, "input_length": 0, "output_length": 0, "more": {}}\n',
]


AZURE = [
    b"TIMESTAMP,ContextTokens,GeneratedTokens\n"
    b"2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n",
    b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    b"2024-05-10 00:00:00.009930+00:00,2162,5\r\n2024-05-10 00:00:00.017335+00:00,2399,6",
]
BURSTGPT = [
    b"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    b"5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,0,1087,API log\n",
    b"Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens\n"
    b"19440110.0,1722ac82,43,GPT-4,906,446,1352\n19440161.5,d5983bf9,2,ChatGPT,36,29,65\n",
]
SHARED = ("--model", "kimi-k2", "--block-tokens", "16", "--prefix", "32")


def _text(samples):
    def make(random):
        data = mutated(random, samples)
        if random.random() < 0.1:
            codec = random.choice(("zstd", "gzip"))
            buffer = pa.BufferOutputStream()
            with pa.CompressedOutputStream(buffer, codec) as stream:
                stream.write(data)
            data = mutated(random, [buffer.getvalue().to_pybytes()])
        return data

    return make


def _convert(name, *more):
    def read(path, folder):
        told = ["--from", name] if path.read_bytes()[:1] < b"h" else []
        out = folder / "made.parquet"
        if commanded("trace", "convert", path, out, "--json", *told, *more) is None:
            return
        _read_parquet(out, folder)

    return read


def _toml(value):
    """A value as TOML spells it, tables in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value) if value is not None else '"none"'


def _made_toml(shelf):
    samples = [path.read_bytes() for path in sorted((CATALOG / shelf).glob("*.toml"))]
    trees = [tomllib.loads(sample.decode()) for sample in samples]

    def make(random):
        if random.random() < 0.5:
            return mutated(random, samples)
        tree = json.loads(json.dumps(random.choice(trees)))
        for _ in range(random.choice((1, 1, 2, 5))):
            tree = changed_tree(random, tree)
        lines = [f"{json.dumps(key)} = {_toml(value)}" for key, value in tree.items()]
        text = "\n".join(lines).encode(errors="replace")
        if random.random() < 0.2:
            text = text.replace(b" = 1", b" = " + random.choice(ODD_NUMBERS))
        return text

    return make


def _show(command, *more):
    def read(path, _folder):
        if commanded(command, "show", path) is not None:
            commanded(command, "show", path, "--json")
            called(lambda: _priced(path)) if more else None

    return read


def _priced(path):
    """Whatever a platform's costs are used for."""
    from nicscope.config.design import Scheme
    from nicscope.config.platform import (
        delivery_costs,
        load_platform,
        program_costs,
        transfer_costs,
    )

    platform = load_platform(path)
    for use in (transfer_costs, delivery_costs):
        called(lambda use=use: use(platform))
    for scheme in Scheme:
        called(lambda scheme=scheme: program_costs(platform, scheme))


IDENTITY = Identity(
    version="0.1.0",
    source="0" * 64,
    traces=[TraceIdentity(name="t", requests=10, sha256="1" * 64)],
    design={"name": "utlb", "entries": 64},
    grid=[AxisIdentity(key="entries", values=[64, 128, None, True])],
    platforms={"utlb-prototype": "2" * 64},
    kinds=True,
)


def _journal_samples():
    samples = []
    for count in (0, 1, 3):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "j"
            counts = [None, *range(len(TALLIED) - 1)]
            with open_journal(path, IDENTITY) as journal:
                journal.append([Record(0, number, counts) for number in range(count + 1)])
            samples.append(path.read_bytes())
    return samples


def _made_journal(samples):
    def make(random):
        data = mutated(random, samples)
        if random.random() < 0.5:  # lines that are whole all the same
            lines = data.split(b"\n")[:20]
            texts = [mutated(random, [line[8:]]).replace(b"\n", b"") for line in lines]
            data = b"".join(b"%08x%s\n" % (zlib.crc32(text), text) for text in texts)
        return data

    return make


def _read_journal(path, _folder):
    def read():
        with open_journal(path, IDENTITY) as journal:
            _Tallies(len(IDENTITY.traces), len(IDENTITY.grid[0].values), journal)

    called(read)


def _table_samples():
    columns = {"trace": ["t"] * 4, "ni_misses": [1, 2, 3, 4]}
    table = pa.table(columns).replace_schema_metadata({METADATA_KEY: msgspec.json.encode(IDENTITY)})
    return [_parquet(table, compression="none"), _parquet(table, write_page_checksum=True)]


def _read_table(path, _folder):
    called(lambda: difference_of_table(path, IDENTITY))


def _from_bytes(samples, near_end=0):
    return lambda random: mutated(random, samples, near_end)


READERS = {
    "parquet": Reader(".parquet", _made_parquet(_parquet_samples()), _read_parquet),
    "csv": Reader(".csv", _text([CSV]), _convert("csv")),
    "strace": Reader(".strace", _text(STRACE), _convert("strace")),
    "lackey": Reader(".lackey", _text(LACKEY), _convert("lackey")),
    "libcachesim-csv": Reader(".csv", _text(LIBCACHESIM), _convert("libcachesim-csv")),
    "oracle-general": Reader(".bin", _text(ORACLE), _convert("oracle-general")),
    "mooncake": Reader(".jsonl", _text(MOONCAKE), _convert("mooncake", "--model", "kimi-k2")),
    "azure-llm": Reader(".csv", _text(AZURE), _convert("azure-llm", *SHARED)),
    "burstgpt": Reader(".csv", _text(BURSTGPT), _convert("burstgpt", *SHARED)),
    "program": Reader(".parquet", _from_bytes(programs(), 2000), read_program_file),
    "goal": Reader(".goal", _text(GOAL), read_goal_file),
    "design": Reader(".toml", _made_toml("designs"), _show("designs")),
    "platform": Reader(".toml", _made_toml("platforms"), _show("platforms", "priced")),
    "journal": Reader(".journal", _made_journal(_journal_samples()), _read_journal),
    "sweep-table": Reader(".parquet", _from_bytes(_table_samples(), 2000), _read_table),
}


def read_file(name, path):
    """Have the reader ``name`` read ``path``; raises if it does anything but succeed or refuse."""
    with tempfile.TemporaryDirectory() as folder:
        READERS[name].read(path, Path(folder))


def new_file(name, seed, number):
    """The bytes of the ``number``-th file for the reader ``name``."""
    return READERS[name].make(randoms.Random(f"{name} {seed} {number}"))
