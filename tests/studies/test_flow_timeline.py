"""Chrome trace JSON: what Perfetto needs is there, and times are exact."""

import itertools
import json
from collections import Counter, defaultdict
from decimal import Decimal

import pytest

from flow_samples import answered
from nicscope.config.design import POLICIES
from nicscope.interfaces.run_timeline import TRACKS
from nicscope.studies.flow import ENGINES, timeline

PS_PER_US = 10**6


@pytest.fixture(scope="module", params=[*POLICIES, "trunk"])
def found(request):
    if request.param == "trunk":
        return answered(topology="trunk", nodes=4, count=3, to="other")
    return answered(policy=request.param, count=3)


@pytest.fixture(scope="module")
def document(found):
    """As a program that reads it exactly sees it."""
    return json.loads(json.dumps(timeline(found)), parse_float=Decimal)


def of_kind(document, *kinds):
    return [event for event in document["traceEvents"] if event["ph"] in kinds]


def test_every_record_is_a_slice_on_the_track_of_its_engine_exact_to_the_picosecond(
    found, document
):
    slices = [
        (
            one["pid"],
            one["tid"],
            Decimal(one["ts"]) * PS_PER_US,
            (Decimal(one["ts"]) + Decimal(one["dur"])) * PS_PER_US,
            one["args"]["packet"],
            one["args"]["bytes"],
        )
        for one in of_kind(document, "X")
    ]
    fields = ["node", "engine", "start", "end", "packet", "bytes"]

    assert Counter(slices) == Counter(map(tuple, found.log[fields].tolist()))
    assert document["displayTimeUnit"] == "ns"


def test_each_engine_of_each_node_has_a_named_track(found, document):
    names = {
        (event["name"], event["pid"], event["tid"]): event["args"]
        for event in of_kind(document, "M")
    }

    for node in range(found.question.topology.nodes):
        platform = found.question.platform_of(node).name
        assert names["process_name", node, 0] == {"name": f"node {node}: {platform}"}
        for engine in ENGINES:
            assert names["thread_name", node, engine] == {"name": TRACKS[engine]}


def test_slices_of_a_track_do_not_overlap(document):
    tracks = defaultdict(list)
    for one in of_kind(document, "X"):
        tracks[one["pid"], one["tid"]].append((one["ts"], one["ts"] + one["dur"]))

    for slices in tracks.values():
        slices.sort()
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(slices))


def test_an_arrow_follows_each_packet_from_host_to_host(found, document):
    arrows = defaultdict(list)
    for event in of_kind(document, "s", "t", "f"):
        arrows[event["id"]].append(event)
    slices = defaultdict(list)
    for one in of_kind(document, "X"):
        slices[one["pid"], one["tid"]].append((one["ts"], one["ts"] + one["dur"], one["args"]))

    messages = found.messages
    assert sorted(arrows) == sorted(f"{m['sender']}.{m['packet']}" for m in messages)
    for message in messages:
        stops = arrows[f"{message['sender']}.{message['packet']}"]
        assert [stop["ph"] for stop in stops] == ["s", *"t" * (len(ENGINES) - 3), "f"]
        assert stops[-1]["bp"] == "e"
        assert len({(stop["name"], stop["cat"]) for stop in stops}) == 1
        assert [stop["ts"] for stop in stops] == sorted(stop["ts"] for stop in stops)
        ends = [(stops[0]["pid"], stops[0]["tid"]), (stops[-1]["pid"], stops[-1]["tid"])]
        assert ends == [(message["sender"], 0), (message["destination"], 5)]
        for stop in stops:
            [around] = [
                arguments
                for start, end, arguments in slices[stop["pid"], stop["tid"]]
                if start <= stop["ts"] < end
            ]
            assert (around["sender"], around["packet"]) == (message["sender"], message["packet"])


def test_a_message_without_payload_has_an_arrow_too():
    document = timeline(answered(payload="0", count=2))

    assert [event["ph"] for event in of_kind(document, "s", "t", "f")] == [*"sttf"] * 2
