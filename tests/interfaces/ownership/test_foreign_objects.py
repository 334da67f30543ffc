"""Nothing of another's is taken by any call, and nothing changes when it is tried."""

import re
from itertools import groupby
from operator import attrgetter

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


def mine(name):
    """Calls of what programs of an interface hold that say or move what is theirs."""
    return [call for call in CALLS if call.world == name and call.name not in known.FREE]


def all_refused(name, world, attempts):
    """What is wrong where ``attempts(call)`` are tried: receivers, what they are given, the rest.

    With them comes which words the answer must have.  All that a cluster knows is compared for each
    kind of receiver, as it takes longer than many attempts.
    """
    wrong, tried, before = [], 0, worlds.state_of(world.cluster)
    for kind, calls in groupby(mine(name), key=attrgetter("kind")):
        for call in calls:
            for receiver, given, own, words in attempts(call):
                fault, line = refused(receiver, call, given, own)
                tried += 1
                if fault or not re.search(words, line):
                    wrong.append(f"{call}({given!r:.50}): {fault or line}")
        if worlds.state_of(world.cluster) != before:
            wrong.append(f"a call of a {kind} has changed something")
            before = worlds.state_of(world.cluster)
    return wrong, tried


def refused(receiver, call, given, own):
    """What an attempt is answered with, or what is wrong with the answer."""
    places, names = known.arguments(call, own, **given)
    try:
        known.step(receiver, call, places, names)
    except SimulationError as error:
        line = str(error)
        return ("more than a line", None) if "\n" in line or len(line) > 300 else (None, line)
    return "it was not refused", None


def given_for(world, name, scenario, call, parameter):
    """All that is not one's own and could be given for a parameter."""
    kind = known.kind_of(call, parameter)
    if kind is None or (name, kind, scenario) in NAMES:
        return
    if kind == "segments" and scenario in ("by hand", "none at all"):
        return  # numbers, which the NIC judges
    single = "segment" if kind == "segments" else kind
    for things in world.others[scenario]:
        if single not in things or is_same(thing := things[single], world.own[single]):
            continue
        if thing is None and "None" in str(call.parameters[parameter]):
            continue  # which means that there is none
        if kind == "tag" and type(thing) is int and scenario == "none at all":
            continue
        yield [thing] if kind == "segments" else thing


@pytest.mark.parametrize("scenario", worlds.SCENARIOS)
@pytest.mark.parametrize("name", worlds.INTERFACES)
def test_what_is_not_ones_own_is_refused_and_nothing_changes(name, scenario):
    def tries(world):
        def attempts(call):
            receiver = known.receivers(world, call.kind)
            for parameter in call.parameters:
                for given in given_for(world, name, scenario, call, parameter):
                    yield receiver, {parameter: given}, world.own, WORDS[scenario]

        return all_refused(name, world, attempts)

    wrong, tried = worlds.play(worlds.INTERFACES[name], tries)
    assert wrong == []
    assert tried >= 3 or (name, scenario) in {
        ("active messages", "given back"),
        ("trapeze", "given back"),
    }


def is_same(thing, own):
    """Whether these are one number: what it names here is one's own."""
    return isinstance(thing, int) and isinstance(own, int) and thing == own


@pytest.mark.parametrize("scenario", worlds.SCENARIOS[:3])
@pytest.mark.parametrize("name", worlds.INTERFACES)
def test_a_process_calls_nothing_of_anothers(name, scenario):
    """It would act in the other's name, or see what is the other's."""

    def tries(world):
        def attempts(call):
            for things in world.others[scenario]:
                receiver = things["endpoint"].area if call.kind == "area" else things[call.kind]
                yield receiver, {}, {**world.own, **things}, "acts only for itself"

        return all_refused(name, world, attempts)

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
        for call in sorted(mine(name), key=lambda each: each.name in ENDS):
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
                    if any(re.search(WORDS[each], str(error)) for each in FOREIGN):
                        wrong.append(f"{call}({parameter}): {error}")
        return wrong, tried

    wrong, tried = worlds.play(worlds.INTERFACES[name], tries)
    assert wrong == []
    assert tried >= 3
