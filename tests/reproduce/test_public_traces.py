"""Items of public traces that somebody brings: judged by what is there, told what is not."""

import hashlib
import json
import os
from inspect import signature
from pathlib import Path

import pytest

from nicscope.errors import TraceError
from nicscope.inputs import Input
from nicscope.library.reproduce import check
from nicscope.studies.reproduce.experiments.today import counts_of
from nicscope.studies.reproduce.harness import experiment_of, load_papers, parted, reproduce
from nicscope.traces.importers.services import place, read_mooncake
from refusals import refused, refused_command

# Three requests over two conversations; the last block of each is not full.
LINES = [(1_100, [0, 1, 2]), (1_500, [0, 1, 3]), (600, [4, 5]), (1_100, [0, 1, 2])]


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "any name.jsonl"
    path.write_text(
        "\n".join(
            json.dumps(
                {"timestamp": at, "input_length": tokens, "output_length": 1, "hash_ids": ids}
            )
            for at, (tokens, ids) in enumerate(LINES)
        )
    )
    return path


def papers_with(**files):
    """The catalog's, as if these files were the public ones."""
    papers = load_papers()
    digests = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    today = papers["today"]
    papers["today"] = type(today)(today.key, today.title, today.items, {**today.traces, **digests})
    return papers


def test_every_item_of_public_traces_has_a_function_that_takes_one():
    papers = load_papers()
    items = {(key, name) for key in papers for name, one in papers[key].items.items() if one.public}

    assert items
    for key, name in items:
        item = papers[key].items[name]
        assert set(item.public) <= set(papers[key].traces)
        assert list(signature(experiment_of(key, name)).parameters) == ["outcome", "trace", "path"]
        assert item.missing
        assert not item.has_expectations()


def test_counts_are_those_that_a_person_counts(trace):
    counts = counts_of(trace)

    assert counts.references == 11
    assert counts.distinct == 6
    assert counts.full_references == 2 + 2 + 1 + 2
    assert (counts.read, counts.written) == (2 + 2, 3)
    assert (counts.hits, counts.few_hits) == (2 + 3, 5)


def test_a_file_is_known_by_its_bytes_and_the_others_stay(trace, tmp_path):
    other = tmp_path / "conversation_trace.jsonl"
    other.write_text("{}\n")

    public, others = parted([other, trace], papers_with(conversation=trace).values())

    assert public == {"conversation": trace}
    assert others == [other]


def test_what_is_given_is_judged_and_what_is_not_is_said(trace):
    papers = papers_with(conversation=trace)

    found = reproduce(
        ["today/t1", "today/t2", "today/t3"], papers, traced=True, public={"conversation": trace}
    )

    assert {point.quantity: point.reproduced for point in found.points} == {
        "references[trace=conversation] blocks": 11,
        "distinct[trace=conversation] blocks": 6,
        "full_references[trace=conversation] blocks": 7,
        "read[trace=conversation] blocks": 4,
        "written[trace=conversation] blocks": 3,
        "found[trace=conversation] %": pytest.approx(400 / 7),
    }
    assert not any(point.ok for point in found.points)  # another trace than the published one
    [shape] = found.shapes
    assert not shape.ok
    assert shape.evidence == "conversation 100.0 %"
    assert {one.id for one in found.missing} == {"t1", "t2", "t3"}
    assert all("synthetic (SHA-256 bd070915a98fc0ed...)" in one.why for one in found.missing)


def test_without_them_the_items_say_how_to_give_them():
    found = reproduce(["today/t1"])

    assert not found.points
    assert "reproduce today --trace FOLDER" in found.missing[0].why
    assert not reproduce([], traced=True).missing


def test_what_is_no_public_trace_is_refused(trace, capsys):
    with refused(TraceError, "any name.jsonl: ", "public traces"):
        check("today/t1", traces=str(trace))
    refused_command(capsys, ["reproduce", "today/t2", "--trace", trace], "any name.jsonl: ")
    refused_command(capsys, ["reproduce", "today/t4", "--trace", trace], "today/t4", "--trace")


# Counted on the public files: share of all references that a pool of so many blocks has, and the
# digits that were told of it.
POOLS = {
    "conversation": {1_000: 0.0445, 5_859: 0.1355, 10_000: 0.2112, 50_000: 0.3546, None: 0.3664},
    "synthetic": {1_000: 0.0825, 5_859: 0.3094, 10_000: 0.4235, 50_000: 0.6396, None: 0.6396},
}


def public_file(name):
    """The file, which is not part of the project; its bytes are checked against the catalog's."""
    path = Path(os.environ.get("NICSCOPE_PUBLIC_TRACES", "nowhere")) / f"mooncake_{name}.jsonl"
    if not path.is_file():
        pytest.skip(f"needs data: Mooncake's {name} trace as {path.name} in NICSCOPE_PUBLIC_TRACES")
    return path


@pytest.mark.parametrize("name", POOLS)
def test_pools_of_several_sizes_have_what_is_known_of_the_public_traces(name):
    with Input(public_file(name), TraceError) as source:
        every = read_mooncake(source, None, partial=True)

    for blocks, known in POOLS[name].items():
        placed = place(every.firsts, every.ids, blocks)
        hits = len(every.ids) - placed.used - placed.evicted
        assert round(hits / len(every.ids), 4) == known


@pytest.mark.parametrize("name", POOLS)
def test_all_that_is_expected_of_a_public_trace_holds(name):
    public, others = parted([public_file(name)], load_papers().values())
    assert [*public] == [name]
    assert not others

    found = reproduce(["today/t1", "today/t2", "today/t3"], traced=True, public=public)

    assert len(found.points) == 6
    assert found.misses() == []
