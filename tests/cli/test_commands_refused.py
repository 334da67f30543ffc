"""Commands that are refused, of every command in one place: one line, status 2, nothing written.

Options are told before the trace is looked at, which is not there.
"""

from __future__ import annotations

import shlex

import pytest
from trace_files import write

from refusals import refused_command

GRID = "sweep t.parquet --design utlb --out o.parquet"
PRICED = "--nic-memory 1KiB --platform utlb-prototype"
MANY = ",".join(map(str, range(1, 1001)))
COMMANDS = [
    ("rplay T", "'rplay'", "'replay'"),
    ("help", "'help'", "'nicscope --help'"),
    ("designs utlb", "'utlb'", "nicscope designs show utlb"),
    ("replay", "TRACE", "nicscope replay bundled:redis_server"),
    ("designs new", "--from", "nicscope designs new --from utlb > mine.toml"),
    ("replay T more", "'more'", "'nicscope replay --help'"),
    ("replay T --set entries 64", "--set entries=64"),
    ("--json replay T", "nicscope COMMAND --json"),
    ("replay T --desing utlb", "'--desing'", "'nicscope replay'", "'--design'"),
    ("replay T -o R", "'-o'", "'--out'"),
    ("replay T --fault-bytes request", "'--fault-bytes'", "'nicscope odp'"),
    ("sweep T --inline 8", "'--inline'", "'nicscope verbs bw'", "'nicscope verbs lat'"),
    ("register 1TiB --bytes 1TiB", "BYTES", "--bytes"),
    ("replay T --entries 64", "'--entries'", "--set entries=VALUE"),
    ("flow --count 2.5", "--count", "whole number", "'2.5'"),
    ("size T --nic-memory 1M --target-us 2us", "--target-us", "a number", "'2us'"),
    ("simulate T --requests 0", "--requests", "at least 1", "got 0"),
    ("flow --count", "--count", "a value"),
    ("flow --json=yes", "--json", "no value"),
    ("replay none --out o --design utl", "'utlb'"),
    ("replay none --out o --platform pca", "'pca'"),
    ("replay none --out o --design utlb,mini", "--design utlb --design mini"),
    ("replay none --out o --design utlb --design unet --set entries=64", "'unet'"),
    ("replay none --out o --design utlb --set entires=64", "'entries'"),
    ("replay none --out o --design utlb --set entries=63", "power of two"),
    ("replay none --out o --design utlb --set entries", "KEY=VALUE"),
    ("replay none --out o --set ways=2", "--design"),
    ("replay none --out o --design utlb --design utlb", "twice"),
    ("replay none --out mine --design utlb", "mine"),
    ("replay bundled:redis_serve --design utlb", "'redis_serve'", "'redis_server'"),
    ("replay t.parquet --design utlb --counters neohost", "--design rnic"),
    ("replay t.parquet --design rnic --counters neohots", "neohost"),
    ("replay t.parquet --design utlb --registered 1MiB", "'registered'"),
    ("replay t.parquet --design rnic --registered 1MB", "registered"),
    ("replay t.parquet --design rnic --page-size 5000", "power of two"),
    ("replay t.parquet --workers 2", "one file"),
    ("replay t.parquet --workers 0", "--workers"),
    ("replay t.parquet --workers 2 --scheduler tcp://127.0.0.1:1", "--workers"),
    ("curve none --out o --by proces", "'process'"),
    ("curve none --out o --ways 3", "'3'"),
    ("curve none --out o --ways 32", "from 1 to 16"),
    ("curve none --out o --ways 1,,2", "got ''"),
    ("curve none --out o --line 256", "from 1 to 128"),
    ("curve none --out o --entries 256-1024", "256..65536", "'256-1024'"),
    ("curve none --out o --entries 100..1024", "powers of two"),
    ("curve none --out o --entries 256..134217728", "from 1 to 67108864"),
    ("curve none --out o --entries 1024..256", "ascend", "256..1024"),
    ("curve none --out o --entries 4..16 --line 64", "64 pages", "16 entries"),
    ("curve none --out o --sample 0", "above 0", "0.0"),
    ("curve none --out o --sample 1.5", "at most 1", "1.5"),
    ("curve none --out o --sample nan", "above 0", "nan"),
    ("curve none --out o --sample 0.1 --ways 2", "sampled"),
    ("curve none --out o --page-size 5000", "--page-size"),
    ("curve none --out o --page-size big", "--page-size"),
    ("curve t.parquet none --out o", "none"),
    ("curve t.parquet --out mine", "mine"),
    ("curve t.parquet --skip 300", "--skip 300", "t, which has 300 requests"),
    ("curve t.parquet --skip=-1", "--skip", "0 or more"),
    ("size none --out o", "--nic-memory BYTES", "--target-miss"),
    ("size none --out o --nic-memory 0", "--nic-memory"),
    ("size none --out o --nic-memory much", "128KiB", "'much'"),
    ("size none --out o --nic-memory 1KiB --pin-memory -1", "--pin-memory"),
    ("size none --out o --nic-memory 1KiB --platform utlb-prototyp", "'utlb-prototype'"),
    ("size none --out o --nic-memory 1KiB --target-us 2", "--platform"),
    (f"size none --out o {PRICED} --target-us -2", "above 0"),
    ("size none --out o --nic-memory 1KiB --page-size 4096,12345", "power of two"),
    ("size t.parquet none --out o --nic-memory 1KiB", "none"),
    (f"{GRID}", "empty"),
    (f"{GRID} --grid entires=4", "'entries'"),
    (f"{GRID} --grid entries=", "no values"),
    (f"{GRID} --grid entries=4,4", "twice"),
    (f"{GRID} --grid entries=3", "power of two"),
    (f"{GRID} --grid entries=4 --workers 0", "--workers", "from 1"),
    (f"{GRID} --grid entries=4 --platform pca", "'pca'"),
    ("sweep none --out o.parquet --design utl --grid entries=4", "'utlb'"),
    (f"{GRID} --grid entries=4 --scheduler somewhere", "tcp://HOST:PORT"),
    (f"{GRID} --grid entries=4 --scheduler tcp://h:1 --workers 2", "--workers"),
    (f"{GRID} --grid seed={MANY} --grid prepin={MANY}", "--yes"),
    ("sweep none --design utlb --grid entries=4 --out o.parquet", "none", "no such file"),
    ("sweep t.parquet --design utlb --grid entries=4 --out no/o.parquet", "folder"),
    ("sweep t.parquet --design utlb --grid entries=4 --out .", "folder"),
    ("sweep t.parquet --design utlb --grid entries=4 --out t.parquet", "sweep's table"),
    ("flow --out o --payload 9000", "9000 bytes", "8192"),
    ("flow --out o --count 0", "--count", "from 1"),
    ("flow --out o --count many", "count"),
    ("flow --out o --gap -5us", "--gap", "from 0"),
    ("flow --out o --minpulse 0", "minpulse", "from 1"),
    ("flow --out o --minpulse-send 9000", "minpulse", "from 1"),
    ("flow --out o --policy adaptiv", "'adaptive'"),
    ("flow --out o --platform utlb-prototyp", "'utlb-prototype'"),
    ("flow --out o --platform utlb-prototype", "delivery"),
    ("flow --out o --set nic_memory_per_byte=20ns/B", "NIC memory"),
    ("flow --out o --set link_per_byte=0ns/B", "link_per_byte"),
    ("flow --out o --set pio_read=40s --count 200000", "the clock"),
    ("flow --out missing/o", "folder"),
    ("flow --out mine", "not a folder"),
    ("flow --bus-master 8us", "HOLD/PERIOD", "8us/20us"),
    ("flow --bus-master 20us/8us", "less than"),
    ("flow --bus-master x/8us", "a number and a unit"),
    ("latency --bytes 8 --out o --mechanism edd", "'edd'", "'edt'"),
    ("latency --bytes many --out o", "--bytes"),
    ("latency --bytes 8 --out o --translation utbl", "'utbl'", "'utlb'"),
    ("latency --bytes 8 --out o --translation utlb --entries 3", "entries"),
    ("latency --bytes 8 --out o --translation unet", "VIA", "static"),
    ("latency --bytes 8 --out o --translation via-static", "no platform"),
    ("latency --bytes 8 --out o --mechanism pci", "'sonic-via'", "I/O bus"),
    ("latency --bytes 8 --out o --platform sonic", "'sonic'", "'sonic-via'"),
    ("latency --bytes 8 --out o --platform utlb-prototype", "retry_timeout"),
    ("latency --bytes 8 --out o --set mtuu=3", "'mtuu'", "'mtu'"),
    ("latency --bytes 8 --out o --set l2_line=100", "l2_line", "power of two"),
    ("apps run fftt", "'fftt'", "'fft'"),
    ("apps run fft --size 1000", "1,000 points", "16 processes"),
    ("apps run fft --size 4MB", "'4MB'", "64K"),
    ("apps run fft --size 0", "'0'"),
    ("apps run fft --out nowhere/fft.parquet", "nowhere"),
    ("apps run fft --out fft.csv", "fft.csv", "Parquet"),
    ("apps run radix --on vmc", "--on", "'vmc'", "'vmmc'"),
    ("apps run radix --on via", "'via'"),
    ("apps run radix --on vmmc --size 4M", "pages of shared memory"),
    ("apps run radix --on vmmc --faults lss=1", "'lss=1'", "'loss'"),
    ("apps run radix --on vmmc --faults link=1", "'link=1'", "loss=0.05"),
    ("apps run radix --on vmmc --faults loss=3", "loss", "from 0 to 1"),
    ("apps run radix --on vmmc --out a.parquet", "a.parquet", "logical time"),
    ("apps run radix --design utlb", "--design", "--on"),
    ("apps run radix --faults loss=0.1", "--faults", "simulated machines"),
    ("simulate absent.py", "absent.py", ".py file or a trace"),
    ("simulate absent.parquet", "absent.parquet"),
    ("simulate bundled:redis_serve", "'redis_serve'", "'redis_server'"),
    ("simulate bundled:redis_server --design utbl", "'utlb'"),
    ("simulate bundled:redis_server --design via-static", "platform"),
    ("simulate bundled:redis_server --timeline t.json", "--timeline", "programs"),
    (f"simulate {__file__} --timeline /nowhere/t.json", "/nowhere"),
    (f"simulate {__file__} --json --timeline -", "--json"),
    ("simulate x.py --design utlb", "x.py", "--design"),
    ("simulate bundled:redis_server --window 65", "--window", "64", "65"),
    ("apps record-sockets --out s.parquet --users 0", "0"),
    ("apps record-sockets --out s.parquet --seconds 0", "0"),
    ("apps record-sockets --out s.parquet --seconds nan", "nan"),
    ("apps record-sockets --out s.csv", "s.csv", "Parquet"),
    ("apps record-sockets --out nowhere/s.parquet", "nowhere"),
    ("trace convert t.parquet t.csv --op sent", "--op", "'sent'", "'send'"),
    *[
        (f"trace convert t.parquet t.csv --page-size {n}", "--page-size", "512 to 1073741824", n)
        for n in ("1000", "4611686018427387904")
    ],
    (f"trace convert t.parquet t.csv --pid {2**31}", "--pid", "2^31", "2147483648"),
    ("trace convert t.parquet t.csv --from strase", "'strase'", "'strace'"),
    ("designs new --from utbl", "'utlb'"),
    ("platforms new --from alcro", "'alcor'"),
    ("verbs run", "FILE.py"),
    ("verbs run --node 0 a.py b.py", "quote"),
    ("verbs run --node a.py", "no node"),
    ("verbs run --node 0 a.py", "from node 0 on"),
    ("verbs run --node 0 a.py --node 2 b.py", "nodes 0, 2"),
    ("verbs run --node 0 a.py --node 0 b.py", "two programs"),
    ("""verbs run --node 0 "'a.py" --node 1 b.py""", "closing quotation"),
    ("verbs run --topology trunk x.py", "several nodes"),
    (
        "verbs run --topology pair --node 0 x.py --node 1 x.py --node 2 x.py",
        "'pair'", "2 nodes", "got 3", "'crossbar'",
    ),
    ("verbs run --timeline none/t.json x.py", "folder"),
]  # fmt: skip


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row[0][:80])
def test_a_command_is_refused_in_one_line_and_leaves_everything_as_it_was(
    row, capsys, tmp_path, monkeypatch
):
    words, *facts = row
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("nicscope.studies.interactive._record", None)
    write(tmp_path / "t.parquet", count=300)
    (tmp_path / "mine").write_text("here first")
    (tmp_path / "x.py").write_text("print('runs')\n")

    refused_command(capsys, shlex.split(words), *facts)

    assert sorted(each.name for each in tmp_path.iterdir()) == ["mine", "t.parquet", "x.py"]
    assert (tmp_path / "mine").read_text() == "here first"
