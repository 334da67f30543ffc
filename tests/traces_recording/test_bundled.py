"""The traces that come with nicscope."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from nicscope.traces.bundled import bundled_traces
from nicscope.traces.reader import open_trace
from nicscope.traces.schema import Op

PAGE = 4096


def read(name):
    return list(open_trace(bundled_traces()[name]).batches())


def test_there_are_a_key_value_server_a_file_transfer_a_database_and_users():
    assert list(bundled_traces()) == [
        "postgres_pgbench",
        "redis_server",
        "rsync_transfer",
        "sockets_interactive",
    ]


@pytest.mark.requirement("UM-84")
def test_each_of_32_users_programs_receives_into_64_pages_of_its_own_in_turn():
    (batch,) = read("sockets_interactive")
    of_users = batch.node == 0

    assert len(np.unique(batch.pid[of_users])) == 32
    for pid in np.unique(batch.pid[of_users]):
        received = batch.address[(batch.pid == pid) & (batch.op == Op.RECV)]
        assert (received % PAGE == 0).all()
        first = received[:64]
        assert len(np.unique(first)) == 64
        assert (received == np.resize(first, received.size)).all()
    assert (batch.length[batch.op == Op.RECV] <= PAGE).all()


@pytest.mark.parametrize("name", bundled_traces())
def test_a_bundled_trace_is_small_sound_and_says_how_it_was_made(name):
    path = bundled_traces()[name]
    trace = open_trace(path)

    rows = sum(batch.length.size for batch in trace.batches())  # each is checked as it passes

    assert path.stat().st_size < 300_000
    assert trace.metadata.origin["recorder"].startswith("nicscope record ")
    assert name.partition("_")[0] in trace.metadata.origin["command"]
    assert trace.metadata.observed["rows"] == rows == sum_of_pieces(name)
    assert trace.metadata.observed["unfinished"] == trace.metadata.observed["hidden"] == 0


def sum_of_pieces(name):
    """Rows by the file's own account, of which none is larger than what was posted."""
    table = pq.read_table(bundled_traces()[name], columns=["length", "posted"])
    assert (table["length"].to_numpy() <= table["posted"].to_numpy()).all()
    return int(table.num_rows)


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("redis_server", 30_000_000),
        ("rsync_transfer", 30_000_000),
        ("sockets_interactive", 4_000_000),
    ],
)
def test_both_ends_are_recorded_so_each_byte_that_was_sent_was_received(name, least):
    sent = received = 0
    for batch in read(name):
        lengths = batch.length.astype(np.int64)
        sent += int(lengths[batch.op == Op.SEND].sum())
        received += int(lengths[batch.op == Op.RECV].sum())

    assert sent == received > least


def test_the_key_value_server_touches_more_pages_than_a_network_interface_caches():
    (batch,) = read("redis_server")
    server = batch.pid == np.bincount(batch.pid).argmax()
    first = batch.address[server] // PAGE
    last = (batch.address[server] + batch.length[server] - np.uint64(1)) // PAGE

    pages = {page for ends in zip(first, last, strict=True) for page in range(*map(int, ends))}

    assert len(pages) > 2000
