"""Trapeze's Figure 3 is of the stream that its caption names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from nicscope.drivers.simulate.log import Engine
from nicscope.studies.delivery_measures import PS_PER_US
from nicscope.studies.reproduce.experiments.trapeze import transfers
from nicscope.studies.reproduce.harness import reproduce

if TYPE_CHECKING:
    from nicscope.drivers.simulate.script import Outcome


@pytest.mark.requirement("TR-71")
def test_it_sends_8_kb_every_130_us_and_no_packet_meets_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    streams: list[Outcome] = []
    stream = transfers.stream

    def noted(*given: Any, **settings: Any) -> Outcome:
        streams.append(stream(*given, **settings))
        return streams[-1]

    monkeypatch.setattr(transfers, "stream", noted)
    assert reproduce(["trapeze/figure3"]).as_known()

    [found] = streams
    assert np.diff(found.messages["posted"]).tolist() == [130 * PS_PER_US] * (
        len(found.messages) - 1
    )
    read = found.log[found.log["engine"] == Engine.HOST_TX]
    written = found.log[found.log["engine"] == Engine.HOST_RCV]
    for packet in range(len(found.messages)):
        mine = written[written["packet"] == packet]
        assert mine["bytes"].sum() == 8192
        assert mine["end"].max() < read[read["packet"] == packet + 1]["start"].min(initial=1 << 62)
