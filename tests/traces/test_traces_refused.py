"""Traces of other tools that are refused: one line that names the file, the line and the value.

The same mistakes stand side by side for every format: what a reader makes of a bad line, a header
that is not its own, an end that comes too soon, a file that holds nothing.
"""

import gzip
import json
from functools import partial

import pytest
from trace_kinds import AZURE, BURST, CSV, LACKEY, LIBCACHESIM, RING, records

from nicscope.errors import TraceError
from nicscope.library.kv_cache import kv_choices
from nicscope.traces.formats import convert
from nicscope.traces.imported import Choices, KvChoices
from nicscope.traces.synthetic import ops_of
from refusals import refused

TOKENS = KvChoices("tiny", token_bytes=8, ranks=1, regions=4, slice_bytes=None, block_tokens=16)
BLOCKS = KvChoices("tiny", token_bytes=256, ranks=1, regions=4)


def asked(tokens, ids, timestamp=0):
    """A line of a Mooncake trace."""
    return json.dumps(
        {"timestamp": timestamp, "input_length": tokens, "output_length": 1, "hash_ids": ids}
    )


ONE = asked(512, [0])
SOCKET = "1 1000.0 socket(AF_INET, SOCK_STREAM, 0) = 3\n"
CLOSED = "1 1000.9 close(9) = -1 EBADF (Bad file descriptor)\n"
MOMENT = "2023-11-16 18:15:46"
TEXTS = {
    "run.lackey": [
        *[
            (f"{LACKEY}{line}\n", "line 10", repr(line))
            for line in (
                " L 04025e70", " L 04025e70,", " L ,8", " X 04025e70,8", "L", " L 04025e70,0",
                " L 04025e70,8 x", " L 1234567890abcdef1,8", "hello",
            )
        ],
        ("I  04000c10,3\n", "no requests", "lackey"),
    ],
    "t.csv": [
        *[
            (f"{CSV}{line}\n30,0,7,send,4096,64,,,x\n", "line 4", *facts)
            for line, *facts in [
                ("0,0,7,send,x,64,,,", "address", "uint64", "'x'"),
                ("0,0,7,send,4096,,,,", "length is null"),
                ("0,0,7,send,4096,0,,,", "length is 0"),
                ("0,0,7,send,4096,99999999999,,,", "length", "uint32", "'99999999999'"),
                ("20,-3,7,send,4096,1,,,", "node is -3"),
                ("20,0,7,sent,4096,1,,,", "'sent'", "'send'"),
                ("5,1,7,send,4096,1,,,", "time_ns is 5", "10", "node 1", "backwards"),
                ("20,0,7,send,4096", "9 columns", "5", "20,0,7,send,4096"),
            ]
        ],
        (CSV.replace(",length,", ",len,"), "column 'length' is missing", "header"),
        (CSV.replace("note", "pid"), "column 'pid'", "2 times"),
        (CSV.splitlines(keepends=True)[0], "no requests", "csv"),
        ("time_ns;node;pid;op;address;length\n1,2,3,4,5,6\n", "header", "';'", "commas"),
        ("time_ns\tnode\tpid\top\taddress\tlength\n1,2,3,4,5,6\n", "header", "'\\t'", "commas"),
        (
            "Time,Op,Address,Length\n1,2,3,4,5,6\n",
            "column 'time_ns' is missing", "time_ns, node, pid, op, address, length",
        ),
        *[
            (f"{LIBCACHESIM}{line}\n", "line 4", *facts)
            for line, *facts in [
                ("3,x,1,", "object", "uint64", "'x'"),
                ("3,5,,", "no size"),
                ("x,5,1,", "time", "double", "'x'"),
                ("1e300,5,1,", "time 1e+300", "seconds"),
                ("nan,5,1,", "time nan", "seconds"),
                ("1,5,1,", "time_ns is 1000000000", "2000000000", "node 0", "backwards"),
                ("3,5", "4 columns", "2", "3,5"),
            ]
        ],
        *[
            (f"{AZURE}{text}", *facts)
            for text, *facts in [
                ("", "no line of a request"),
                (f"{MOMENT},1,1\nnoon,2,2\n", "line 3", "TIMESTAMP"),
                (f"{MOMENT},1,1\n\n2023-11-16 18:15:45,2,2\n", "line 4", "TIMESTAMP", "before"),
                (f"{MOMENT},-1,1\n", "line 2", "ContextTokens", "got -1"),
                (f"{MOMENT},,1\n", "line 2", "ContextTokens", "got None"),
                (f"{MOMENT},1\n", "line 2"),
                (",1,1\n", "line 2", "TIMESTAMP"),
                (f"{MOMENT},2.5,1\n", "line 2", "ContextTokens"),
            ]
        ],
        (f"{BURST}x,a,1,1,2,b\n", "line 2", "Timestamp", "45", "'x'"),
        (f"{BURST}99999999999,a,1,1,2,b\n", "line 2", "Timestamp"),
        (BURST.replace("Model", "Timestamp") + "1,1,1,1,2,b\n", "2 times", "header"),
        (f"{BURST}1,a,32,0,32,b\n", "no requests"),
    ],
    "t.csv.gz": [
        (gzip.compress((CSV + "20,0,7,send,4096,64,,,x\n" * 1000).encode())[:-30], "Truncated"),
    ],
    "t.bin": [
        (records((0, 1, 1, -1), (0, 2, 1, -1))[:-3], "record 1 (the first is 0)"),
        (
            records((9, 1, 0, 1), (9, 1, 1, -1), (8, 2, 1, -1)),
            "record 2 (the first is 0)", "time_ns is 8000000000",
        ),
    ],
    "service.jsonl": [
        (f"{asked(0, [])}\n{text}\n", *facts)
        for text, *facts in [
            ("{}", "line 2"),
            (f'{ONE}\n{{"timestamp": "x", "hash_ids": []}}', "line 3"),
            (f"{asked(512, [0], 5)}\n{asked(512, [0], 4)}", "line 3", "timestamp 4", "5"),
            (asked(513, [0]), "line 2", "513 tokens", "2 blocks of 512", "hash_ids has 1"),
            (asked(1024, [3, 3]), "line 2", "a block twice"),
            (asked(-1, []), "line 2", "input_length", "got -1"),
            (asked(512, [0], -1), "line 2", "timestamp", "milliseconds"),
            (asked(512, [1 << 63]), "line 2"),
        ]
    ],
    "x.goal": [
        *[
            (RING.replace(old, new), *facts)
            for old, new, *facts in [
                ("num_ranks 2", "ranks 2", "line 2", "'ranks 2'", "'num_ranks N'"),
                ("num_ranks 2", "num_ranks 0", "line 2", "num_ranks", "from 1"),
                ("rank 1 {", "rank 2 {", "line 12", "rank 2", "num_ranks 2"),
                ("rank 1 {", "rank 0 {", "line 12", "rank 0", "second time"),
                ("rank 1 {", "rank 1", "line 12", "'rank 1'", "'rank N {'"),
                ("calc 5", "clac 5", "line 14", "'clac 5'", "'calc 100'"),
                ("calc 5", "l9: calc", "line 14", "'l9: calc'"),
                ("calc 5", f"calc {2**53}", "line 14", "calc 9007199254740992", "2^53 ns"),
                ("send 20b to 0", "send 20b to 3", "line 15", "rank 3", "num_ranks 2"),
                ("send 20b to 0", "send 20b to -1", "line 15", "'second: send 20b to -1 tag 9'"),
                ("send 20b to 0", f"send {2**32}b to 0", "2^32 - 1"),
                ("to 0 tag 9", f"to 0 tag {2**32}", "tag 4294967296", "from 0 to 2^32 - 1"),
                ("to 0 tag 9", "to 0 tag -1", "tag -1", "from 0"),
                ("second: send", "first: send", "line 15", "'first'", "second time"),
                ("requires first", "requires third", "'third'"),
                ("l2 requires l1", "l2 requires l1\nl1 requires l2", "requires itself"),
                ("l2 requires l1", "l2 irequires l2", "line 7", "rank 0", "requires itself"),
                ("requires first\n}", "requires first", "rank 1", "line 12"),
            ]
        ],
        ("/* two" + RING.partition("\n")[2].replace("*/", ""), "a comment"),
    ],
    "log.strace": [
        (
            f'{SOCKET}1 1000.1 read(3, "GET /, x"..., 10) = 10\n{CLOSED}',
            "line 2", "strace -f -ttt -e raw=read,write,recvfrom,sendto -o LOG COMMAND",
            "nicscope record",
        ),
        (f"{SOCKET}1 1000.1 read(0x3, 0x1000) = 0x1\n{CLOSED}", "line 2", "read(0x3, 0x1000)"),
        (f"{SOCKET}1 1000.1 writev(0x3, 0x1000, 0x2) = 0x1\n{CLOSED}", "1 vector calls"),
        ("hello\nworld\n", "strace log"),
    ],
}  # fmt: skip
CASES = [(name, *row) for name, rows in TEXTS.items() for row in rows]


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join([case[0], *case[2:]]))
def test_a_trace_that_is_wrong_is_named_with_the_place_and_the_value(tmp_path, case):
    name, text, *facts = case
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    target = tmp_path / ("out.program.parquet" if name == "x.goal" else "out.parquet")
    kv = BLOCKS if name == "service.jsonl" else TOKENS

    with refused(TraceError, *facts) as told:
        convert(path, target, choices=Choices(kv=kv))

    assert str(told.value).startswith(f"{path}: ")
    assert [each.name for each in tmp_path.iterdir()] == [name]


CHOICES = [
    *[
        (Choices(parameters=parameters), *facts)
        for parameters, *facts in [
            ("time-cl=1", "'time-cl'", "--columns", "'time-col'"),
            ("time-col=0", "time-col", "--columns", "'0'", "from 1"),
            ("time-col=x", "time-col", "--columns", "'x'", "from 1"),
            ("time-col=9999999", "time-col", "--columns", "'9999999'", "from 1"),
            ("time-col=2", "--columns", "one column twice"),
            ("has-header=maybe", "has-header", "--columns", "'maybe'", "true or false"),
            ("delimiter=--", "delimiter", "--columns", "'--'", "one character"),
            ("delimiter=é", "delimiter", "--columns", "'é'", "one character"),
            ("time-col=9", "line 1", "4 columns", "column 9", "time-col=1,obj-id-col=2"),
        ]
    ],
    (Choices(), "--model llama-3-70b"),
    (Choices(kv=BLOCKS._replace(pool_bytes=1000)), "no room", "block of tiny"),
    *[
        (Choices(kv=BLOCKS._replace(block_tokens=512, **more)), "blocks of 512 tokens")
        for more in ({"prefix_tokens": 16}, {"generated": True})
    ],
    (Choices(kv=BLOCKS._replace(block_tokens=16)), "blocks of 512 tokens"),
]


@pytest.mark.parametrize("row", CHOICES, ids=lambda row: " ".join(row[1:]))
def test_choices_that_make_no_sense_of_a_trace_are_refused(tmp_path, row):
    choices, *facts = row
    path = tmp_path / ("t.csv" if choices.parameters else "service.jsonl")
    path.write_text(LIBCACHESIM if choices.parameters else f"{ONE}\n")
    with refused(TraceError, *facts):
        convert(path, tmp_path / "out.parquet", choices=choices)
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize(
    "row",
    [
        (partial(kv_choices, "llama-3-70"), "'llama-3-70b'"),
        (partial(kv_choices, "llama-3-70b", 3), "8 heads", "3 ranks"),
        (partial(kv_choices, "llama-3-70b", layout="layers"), "--layout", "'layers'", "'layer'"),
        (partial(kv_choices, "llama-3-70b", slice_bytes="some"), "--slice"),
        (partial(kv_choices, "kimi-k2", block_tokens=24), "--block-tokens", "multiple of 16"),
        (partial(kv_choices, "kimi-k2", prefix_tokens=-1), "--prefix", "tokens"),
        (partial(ops_of, "x"), "--op"),
    ],
    ids=lambda row: " ".join(row[1:]),
)
def test_what_is_said_of_a_service_or_of_operations_has_to_make_sense(row):
    call, *facts = row
    with refused(TraceError, *facts):
        call()
