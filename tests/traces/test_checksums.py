"""A trace in which bits have flipped is refused, or it is the same trace."""

import random
import zlib

import pyarrow.parquet as pq
import pytest
from trace_samples import parquet, rows

from nicscope.errors import TraceError
from nicscope.traces.files import _BLOCK_BYTES, _MARK
from nicscope.traces.reader import open_trace
from nicscope.traces.schema import TraceMetadata
from nicscope.traces.writer import write_trace
from refusals import refused

FLIPS = 500


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "t.parquet"
    metadata = TraceMetadata(origin={"program": "redis", "command": ["redis-server", "--port"]})
    columns = rows(3000, posted=list(range(3000)), note=[f"note {i % 7}" for i in range(3000)])
    write_trace(path, columns, metadata)
    return path


def content(path):
    """Everything that a conversion would write anew."""
    trace = open_trace(path)
    batches = [batch.to_pydict() for _, batch in trace.record_batches()]
    return batches, trace.metadata, trace.column_names


def flipped(data, bit):
    data = bytearray(data)
    data[bit // 8] ^= 1 << bit % 8
    return bytes(data)


def footer_of(data):
    """Where the footer begins."""
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def test_of_500_flipped_bits_few_are_accepted_and_none_changes_anything(written, tmp_path):
    good, expected = written.read_bytes(), content(written)
    chance = random.Random(0)
    accepted = 0
    for _ in range(FLIPS):
        path = tmp_path / "flipped.parquet"
        path.write_bytes(flipped(good, chance.randrange(8 * len(good))))
        try:
            found = content(path)
        except TraceError:
            continue
        accepted += 1
        assert found == expected

    # In the headers of pages, which nothing covers: what they say is not needed to read them.
    assert accepted < FLIPS // 30


def test_every_flipped_bit_of_the_footer_and_its_checksum_is_refused_or_unread(written, tmp_path):
    good = written.read_bytes()
    begin = footer_of(good)
    assert good[begin - _BLOCK_BYTES : begin].startswith(_MARK)
    chance = random.Random(0)
    for bit in chance.sample(range(8 * begin, 8 * len(good)), 300):
        path = tmp_path / "flipped.parquet"
        path.write_bytes(flipped(good, bit))
        with pytest.raises(TraceError, match=r"flipped.parquet: (damaged|truncated)"):
            open_trace(path)
    for bit in range(8 * (begin - 8), 8 * begin):
        path.write_bytes(flipped(good, bit))
        with refused(TraceError, "its footer"):
            open_trace(path)


def test_the_checksum_is_the_footers_and_pages_have_theirs(written):
    good = written.read_bytes()
    begin = footer_of(good)

    assert int(good[begin - 8 : begin], 16) == zlib.crc32(good[begin:])
    file = pq.ParquetFile(written, page_checksum_verification=True)
    assert file.read().num_rows == 3000
    place = good.index(b"\x28\xb5\x2f\xfd") + 10  # within the first page, as zstd left it
    written.write_bytes(flipped(good, 8 * place))
    with pytest.raises(OSError, match="CRC checksum"):
        pq.ParquetFile(written, page_checksum_verification=True).read()
    with refused(TraceError, "damaged", "CRC checksum"):
        content(written)


def test_traces_without_checksums_are_read_as_ever(tmp_path):
    path = parquet(tmp_path / "t.parquet", rows(100))

    assert _MARK not in path.read_bytes()
    assert open_trace(path).read().time_ns.tolist() == list(range(0, 1000, 10))


@pytest.mark.parametrize("rows_said", [99, 101, 0, -1, 2**40])
def test_a_footer_that_says_other_rows_than_there_are_is_refused(tmp_path, rows_said):
    path = parquet(tmp_path / "t.parquet", rows(100))
    data = path.read_bytes()
    begin = footer_of(data)
    # The file's own count of rows, a zigzag number: the first of two that are 100.
    old, new = _zigzag(100), _zigzag(rows_said)
    footer = data[begin:-8].replace(b"\x16" + old, b"\x16" + new, 1)
    assert footer != data[begin:-8]
    path.write_bytes(data[:begin] + footer + len(footer).to_bytes(4, "little") + b"PAR1")

    with pytest.raises(TraceError) as caught:
        open_trace(path).read()
    assert str(caught.value).isprintable()


def _zigzag(number):
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
