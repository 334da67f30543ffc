"""Questions of sizing that make no sense, and limits that a question has."""

from __future__ import annotations

import pytest

from nicscope.errors import DesignError, PlatformError, StudyError
from nicscope.studies.sizing.question import ask
from nicscope.studies.sizing.shapes import _filled


@pytest.mark.parametrize(
    ("pages", "room", "limit"),
    [([5, 5], 10, 5), ([1, 9], 6, 5), ([4, 4, 4], 7, 2), ([1, 2, 30], 13, 10), ([8], 1, 1)],
)
def test_a_limit_per_process_fills_the_room_and_no_more(pages, room, limit):
    assert _filled(pages, room) == limit
    assert sum(min(limit, count) for count in pages) <= room


@pytest.mark.parametrize(
    ("words", "error", "told"),
    [
        ({"nic_memory": "0"}, StudyError, "from 1B"),
        ({"nic_memory": "-4KiB"}, StudyError, "such as 128KiB; got '-4KiB'"),
        ({"nic_memory": "4 parsecs"}, StudyError, "got '4 parsecs'"),
        ({"nic_memory": "9999999TiB"}, StudyError, "got '9999999TiB'"),
        ({"pin_memory": "0B"}, StudyError, "--pin-memory must be from 1B"),
        ({"platform": "utlb-protoype"}, PlatformError, "did you mean 'utlb-prototype'?"),
        ({"target_us": 2.0}, StudyError, "name a platform with --platform"),
        ({"target_us": 0.0, "platform": "utlb-prototype"}, StudyError, "above 0, got 0.0"),
        ({"target_us": float("nan"), "platform": "utlb-prototype"}, StudyError, "above 0"),
        ({"page_sizes": "4KiB,3000"}, DesignError, "must be a power of two, got 3000"),
        ({"page_sizes": "4KiB,,2MiB"}, DesignError, "got ''"),
        ({"page_sizes": "none"}, StudyError, "such as 4KiB,2MiB; got 'none'"),
        ({"page_sizes": "2TiB"}, DesignError, "--page-size"),
    ],
)
def test_a_question_that_makes_no_sense_is_told_so(words, error, told):
    with pytest.raises(error) as caught:
        ask(**{"nic_memory": "128KiB", **words})

    assert told in str(caught.value)
