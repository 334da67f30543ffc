"""What running programs raises, and what a person reads of it."""

import traceback

import pytest

import nicscope
from nicscope.errors import SimulationError
from program_results import results_of


def failure(cluster, *programs, kind=SimulationError):
    """What running ``programs``, each on its own node, raises."""

    def started_and_run():
        results_of(cluster, *programs)

    with pytest.raises(kind) as caught:
        started_and_run()
    return caught.value


def frames_of_ours(error):
    return [
        frame.filename
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.startswith(nicscope.__path__[0])
    ]


def told(error):
    """All that a person reads of it."""
    return "".join(traceback.format_exception(error))
