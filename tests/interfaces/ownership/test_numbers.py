"""Numbers that are none, do not fit or mean nothing: each call takes them, or says so in a line."""

import contextlib
import math
from fractions import Fraction

import numpy as np
import owned_calls as known
import owned_worlds as worlds
import pytest

from nicscope.errors import SimulationError
from nicscope.interfaces import mini, trapeze, unet, via, vmmc
from nicscope.interfaces.arguments import LAST_PS, in_ps, whole
from nicscope.interfaces.mini import buffer_handle, memory_handle
from refusals import refused

CALLS = list(known.calls())
NO_NUMBERS = (None, "1", b"1", [1], (1,), {}, object(), 1j)
ODD = (
    *(-1, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 10**40),
    *(0.5, -0.5, 1e300, math.nan, math.inf, -math.inf, Fraction(1, 3)),
    *(np.int64(1), np.uint8(255), np.uint64(2**63), np.float32(1.5), np.float64(math.nan)),
    *(True, False, np.True_),
)
BOOLS = (True, False, np.True_)


def answer(receiver, call, names, value):
    """What is wrong with how the call takes ``value``, or None; and whether it was refused."""
    places, rest = names
    try:
        known.step(receiver, call, places, rest)
    except SimulationError as error:
        line = str(error)
        return (None if "\n" not in line and len(line) < 250 else f"no line: {line!r}"), True
    except Exception as error:
        return f"{type(error).__name__} for {value!r:.40}: {error}", True
    return None, False


@pytest.mark.parametrize("name", worlds.INTERFACES)
def test_a_number_is_taken_or_refused_in_a_line(name):
    def tries(world):
        wrong, tried = [], 0
        for call in (each for each in CALLS if each.world == name):
            receiver = known.receivers(world, call.kind)
            for parameter, each in call.parameters.items():
                annotation = str(each.annotation)
                if annotation not in known.NUMBERS or each.kind is each.VAR_POSITIONAL:
                    continue
                for value in (*ODD, *NO_NUMBERS):
                    given = known.arguments(call, world.own, **{parameter: value})
                    fault, refused = answer(receiver, call, given, value)
                    is_bool = any(value is each for each in BOOLS)
                    if is_bool and annotation.startswith(("int", "float")) and not refused:
                        fault = f"{value!r} is taken for a number"
                    if fault is not None:
                        wrong.append(f"{call}({parameter}): {fault}")
                    tried += 1
        return wrong, tried

    wrong, tried = worlds.play(worlds.INTERFACES[name], tries)
    assert wrong == []
    assert tried > 30


@pytest.mark.parametrize("value", [*ODD, *NO_NUMBERS])
def test_so_it_is_with_nodes_and_handles(value):
    async def nothing(_process):
        return None

    calls = [lambda made=made: made.start(value, nothing) for made in clusters()]
    calls += [
        lambda: buffer_handle(value),
        lambda: memory_handle(value, 0),
        lambda: memory_handle(0, value),
    ]
    for call in calls:
        if any(value is each for each in (*BOOLS, *NO_NUMBERS)):
            with pytest.raises(SimulationError, match=r"^[^\n]*$"):
                call()
            continue
        with contextlib.suppress(SimulationError):
            call()


def clusters():
    return (
        unet.Cluster("unet", "pca200-linux"),
        vmmc.Cluster(),
        mini.Cluster(),
        trapeze.Cluster("p6-natoma"),
        via.Cluster(),
    )


def test_whole_numbers_are_those_that_python_can_count_with_but_for_bools():
    assert [whole(each, "x") for each in (0, 7, np.int32(7), np.uint64(2**62))] == [0, 7, 7, 2**62]
    assert type(whole(np.int64(1), "x")) is int
    for value in (1.0, np.float64(1), True, "1", None, -1):
        with refused(SimulationError, "x", "whole number", "at least 0", "got "):
            whole(value, "x")
    with refused(SimulationError, "x", "from 0 to 92"):
        whole(2**63, "x")


def test_a_time_ends_before_the_clock_does():
    assert in_ps(0.5) == 500_000
    assert in_ps(np.float32(2)) == 2_000_000
    assert in_ps(Fraction(1, 2)) == 500_000
    most = LAST_PS // 10**6
    assert in_ps(most) + 10**6 > LAST_PS
    with refused(SimulationError, "the clock"):
        in_ps(most, now=10**6)
    for value, words in ((-1, "not be negative"), (math.nan, "before the clock"), (True, "of us")):
        with pytest.raises(SimulationError, match=words):
            in_ps(value)


def test_what_is_wrong_is_shown_in_a_line_that_is_not_long():
    class Loud:
        def __repr__(self):
            raise RuntimeError("no")

    for value in ("a\nb" * 1000, Loud(), [0] * 10_000):
        with pytest.raises(SimulationError) as caught:
            whole(value, "x")
        assert len(str(caught.value)) < 200
        assert "\n" not in str(caught.value)
