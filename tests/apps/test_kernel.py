"""Network memory and TCP over Trapeze: every byte is right, and what each mechanism saves."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.interfaces.trapeze import Endpoint, PageMap
from nicscope.studies.kernel import Question, measure, network_memory, tcp
from suite import share

SMALL = Question(
    platforms=("p6-natoma", "pentium2-440lx"),
    policies=("adaptive",),
    page_bytes=4096,
    pages=24,
    frames=6,
    accesses=60,
    total_bytes=3 << 19,
    offset=0,
    protocol_us=0.0,
    loss=0.0,
    seed=3,
)


def asked(**changes):
    return msgspec.structs.replace(SMALL, **changes)


def by_hand(question):
    """Faults of pages used longest ago first, and pages sent back: the slow and obvious way."""
    draw = np.random.default_rng(question.seed)
    pages = draw.integers(0, question.pages, question.accesses).tolist()
    writes = draw.integers(0, 2, question.accesses).tolist()
    here, dirty, faults, sent_back = [], set(), 0, 0
    for page, is_write in zip(pages, writes, strict=True):
        if page in here:
            here.remove(page)
        else:
            faults += 1
            if len(here) == question.frames:
                leaves = here.pop(0)
                sent_back += leaves in dirty
                dirty.discard(leaves)
        here.append(page)
        if is_write:
            dirty.add(page)
    return faults, sent_back + len(dirty)


@pytest.mark.requirement("TR-13", "TR-14")
@share(0.1)
@given(st.integers(0, 999), st.integers(1, 12), st.sampled_from([4096, 8192]))
def test_pages_on_another_host_are_as_they_were_written(seed, frames, page_bytes):
    question = asked(seed=seed, frames=frames, page_bytes=page_bytes)

    found = network_memory(question, "adaptive")  # which looks at each page that it uses

    assert (found["page_faults"], found["pages_sent_back"]) == by_hand(question)


def test_without_the_payload_table_pages_are_not_where_they_are_looked_for(monkeypatch):
    monkeypatch.setattr(Endpoint, "map_payload", lambda *_: None)
    monkeypatch.setattr(Endpoint, "unmap_payload", lambda *_: None)

    with pytest.raises(AssertionError, match="not as written"):
        network_memory(SMALL, "adaptive")


def test_cut_through_shortens_a_page_fault():
    rows = measure(asked(policies=("store-and-forward", "cut-through")), []).rows

    assert rows[1].stall_us < 0.7 * rows[0].stall_us  # its aim (Trapeze, 3.3)
    assert rows[0].page_faults == rows[1].page_faults


@pytest.mark.requirement("TR-13", "TR-14")
@pytest.mark.requirement(
    "TR-76", weak="its 86 MB/s: what TCP takes of the processors is printed nowhere"
)
@pytest.mark.parametrize("offset", [0, 100])
def test_whole_pages_of_a_stream_are_mapped_and_others_copied(offset):
    segments = SMALL.total_bytes // SMALL.page_bytes
    found = tcp(asked(offset=offset), "adaptive")

    assert (found["segments_mapped"], found["segments_copied"]) == (
        (0, segments) if offset else (segments, 0)
    )
    assert found["segments_again"] == 0


def test_a_stream_that_is_copied_or_whose_protocol_takes_time_is_slower():
    to_slow = SMALL.platforms[::-1]  # whose copies take longer than the sender's
    mapped, copied, slow = (
        tcp(asked(platforms=to_slow, **changes), "adaptive")["tcp_mbytes_s"]
        for changes in ({}, {"offset": 100}, {"protocol_us": 100.0})
    )

    assert copied < 0.9 * mapped
    assert slow < SMALL.page_bytes / 100.0


@share(0.05)
@given(st.integers(0, 99), st.sampled_from([0.02, 0.1]))
def test_what_is_lost_of_a_stream_goes_again(seed, loss):
    question = asked(seed=seed, loss=loss)

    found = tcp(question, "adaptive")  # which holds every byte against what was sent

    assert found["segments_again"] > 0
    assert found["segments_mapped"] == question.total_bytes // question.page_bytes


def test_a_byte_that_comes_to_another_place_is_noticed(monkeypatch):
    put = PageMap.put
    monkeypatch.setattr(PageMap, "put", lambda self, message, _: put(self, message, 0))

    with pytest.raises(AssertionError, match="not what was sent"):
        tcp(SMALL, "adaptive")
