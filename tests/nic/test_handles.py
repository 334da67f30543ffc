"""Entries of handles, word by word."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.kernel.records import records
from nicscope.nic.handles import (
    BUFFER_WORDS,
    EXPORT_HANDLE,
    IMPORT_HANDLE,
    read_export,
    tag_of,
    write_export,
)
from nicscope.nic.ports.layout import EXPORT

WORD = st.integers(0, 2**31 - 1)
OPTIONAL = st.integers(-1, 2**31 - 2)


@pytest.mark.requirement("MI-3")
@given(
    st.fixed_dictionaries(
        {
            "valid": st.integers(0, 1),
            "port": OPTIONAL,
            "space": WORD,
            "start": st.integers(0, 2**32 - 1),
            "length": WORD,
            "rights": st.integers(0, 3),
            "node": OPTIONAL,
            "importer": OPTIONAL,
            "redirect": OPTIONAL,
            "epoch": WORD,
        }
    )
)
def test_what_protects_a_buffer_survives_in_the_entry(fields):
    before, after = records(1, EXPORT), records(1, EXPORT)
    for name, value in fields.items():
        before[name] = value
    words = np.full(3 * BUFFER_WORDS, 7, np.uint32)

    write_export(words, BUFFER_WORDS, before[0])
    read_export(words, BUFFER_WORDS, after[0])

    assert {name: int(after[0][name]) for name in fields} == fields
    assert (words[:BUFFER_WORDS] == 7).all()
    assert (words[2 * BUFFER_WORDS :] == 7).all()


@given(st.integers(0, 2**30), st.integers(0, 2**30))
def test_no_two_buffers_share_a_tag(one, other):
    tags = {tag_of(EXPORT_HANDLE, one), tag_of(IMPORT_HANDLE, one)}

    assert len(tags) == 2
    assert 0 not in tags
    assert one == other or tag_of(EXPORT_HANDLE, other) not in tags
