"""Nothing of another's is taken by any call, and nothing changes when it is tried."""

from __future__ import annotations

import re

import owned_calls as known
import owned_worlds as worlds
import pytest

from nicscope.errors import SimulationError

CALLS = list(known.calls())
# A name is no object: its owner has said who may open what it names.
# (A neighbour's cannot be opened, for no path leads to one's own node.)
NAMES = {("mini", "handle", "neighbour"), ("mini", "handle", "another node")}
WORDS = {
    "neighbour": "of process 1 of node 0|is process 1 of node 0's",
    "another node": "of process 0 of node 1|no protection tag|no registered",
    "another cluster": "of another cluster, or of an earlier run|no protection tag",
    "by hand": "made by hand|something of type SimpleNamespace|no protection tag|tag must be from|"
    "has no buffer|is needed that request|is not mapped",
    "given back": "that is .* already|of an area that has closed|no protection tag|has no buffer|"
    "is closed already",
    "none at all": "is needed|are needed|must be a whole number|no protection tag|is not mapped|"
    "tag must be",
}


def test_every_class_is_a_programs_or_is_said_to_be_nobodys():
    assert [each for each in known.classes() if not known.is_placed(each)] == []


def test_every_parameter_of_every_call_is_known():
    unknown = [
        f"{call}({name}: {call.parameters[name].annotation})"
        for call in CALLS
        for name in call.parameters
        if not known.is_known(call, name)
    ]
    assert unknown == []
    assert sum(1 for call in CALLS for name in call.parameters if known.kind_of(call, name)) > 60


def refused(world, receiver, call, given, own, before):
    """What an attempt is answered with, or what is wrong with the answer.

    ``before``: the state of the cluster, as it was before the first attempt.
    """
    places, names = known.arguments(call, own, **given)
    try:
        known.step(receiver, call, places, names)
    except SimulationError as error:
        if worlds.state_of(world.cluster) != before:
            return "something has changed", None
        line = str(error)
        return ("more than a line", None) if "\n" in line or len(line) > 300 else (None, line)
    return "it was not refused", None


@pytest.mark.parametrize("scenario", worlds.SCENARIOS)
@pytest.mark.parametrize("name", worlds.INTERFACES)
def test_what_is_not_ones_own_is_refused_and_nothing_changes(name, scenario):
    def tries(world):
        wrong, tried, before = [], 0, worlds.state_of(world.cluster)
        for call in (each for each in CALLS if each.world == name and each.name not in known.FREE):
            receiver = known.receivers(world, call.kind)
            for parameter in call.parameters:
                kind = known.kind_of(call, parameter)
                if kind is None or (name, kind, scenario) in NAMES:
                    continue
                for things in world.others[scenario]:
                    single = "segment" if kind == "segments" else kind
                    if single not in things or same(things[single], world.own[single]):
                        continue
                    if kind == "segments" and scenario in ("by hand", "none at all"):
                        continue  # numbers, which the NIC judges
                    if things[single] is None and "None" in str(call.parameters[parameter]):
                        continue  # which means that there is none
                    if kind == "tag" and type(things[single]) is int and scenario == "none at all":
                        continue
                    given = [things[single]] if kind == "segments" else things[single]
                    fault, line = refused(
                        world, receiver, call, {parameter: given}, world.own, before
                    )
                    tried += 1
                    if fault or not matches(line, scenario):
                        wrong.append(f"{call}({parameter}={given!r:.50}): {fault or line}")
        return wrong, tried

    wrong, tried = worlds.play(worlds.INTERFACES[name], tries)
    assert wrong == []
    assert tried >= 3 or (name, scenario) in {
        ("active messages", "given back"),
        ("trapeze", "given back"),
    }


def same(thing, own):
    """Whether these are one number: what it names here is one's own."""
    return isinstance(thing, int) and isinstance(own, int) and thing == own


def matches(line, scenario):
    return re.search(WORDS[scenario], line) is not None


@pytest.mark.parametrize("scenario", worlds.SCENARIOS[:3])
@pytest.mark.parametrize("name", worlds.INTERFACES)
def test_a_process_calls_nothing_of_anothers(name, scenario):
    """It would act in the other's name, or see what is the other's."""

    def tries(world):
        wrong, tried, before = [], 0, worlds.state_of(world.cluster)
        for call in (each for each in CALLS if each.world == name and each.name not in known.FREE):
            for things in world.others[scenario]:
                theirs = {**world.own, **things}
                receiver = things["endpoint"].area if call.kind == "area" else things[call.kind]
                fault, line = refused(world, receiver, call, {}, theirs, before)
                tried += 1
                if fault or "acts only for itself" not in line:
                    wrong.append(f"{call}: {fault or line}")
        return wrong, tried

    wrong, tried = worlds.play(worlds.INTERFACES[name], tries)
    assert wrong == []
    assert tried >= 3


FOREIGN = [scenario for scenario in worlds.SCENARIOS if scenario != "given back"]
# Calls that end what they take: tried after the others.
ENDS = {
    *("unexport", "release", "wait", "close", "unregister", "unmap_payload", "destroy_vi"),
    *("destroy_cq", "destroy_descriptors", "deregister_mem", "destroy_ptag", "connect_reject"),
}


@pytest.mark.parametrize("name", worlds.INTERFACES)
def test_what_is_ones_own_is_taken(name):
    """Or the other tests would show nothing: each call that takes something goes on with it."""

    def tries(world):
        wrong, tried = [], 0
        mine = (each for each in CALLS if each.world == name and each.name not in known.FREE)
        for call in sorted(mine, key=lambda each: each.name in ENDS):
            for parameter in call.parameters:
                kind = known.kind_of(call, parameter)
                if kind is None:
                    continue
                receiver = known.receivers(world, call.kind)
                given = {parameter: known.sound(call, parameter, world.own)}
                places, names = known.arguments(call, world.own, **given)
                tried += 1
                try:
                    known.step(receiver, call, places, names)
                except SimulationError as error:  # of a state that does not suit, perhaps
                    if any(matches(str(error), each) for each in FOREIGN):
                        wrong.append(f"{call}({parameter}): {error}")
        return wrong, tried

    wrong, tried = worlds.play(worlds.INTERFACES[name], tries)
    assert wrong == []
    assert tried >= 3
