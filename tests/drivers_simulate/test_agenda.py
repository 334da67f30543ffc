"""The agenda against a plain minimum over a dictionary."""

from hypothesis import given
from hypothesis import strategies as st

from nicscope.clock import NEVER
from nicscope.drivers.simulate.agenda import earliest, new_agenda, put

times = st.one_of(st.integers(0, 6), st.just(int(NEVER)))


@given(
    slots=st.integers(1, 150),
    data=st.data(),
)
def test_the_earliest_fires_first_and_of_equals_the_lowest(slots, data):
    agenda = new_agenda(slots)
    pending = dict.fromkeys(range(slots), int(NEVER))
    moves = data.draw(st.lists(st.tuples(st.integers(0, slots - 1), times), max_size=60))
    for slot, time in moves:
        put(agenda, slot, time)
        pending[slot] = time

        first = earliest(agenda)

        assert agenda.times[first] == min(pending.values())
        if agenda.times[first] < NEVER:
            assert first == min(pending, key=lambda s: (pending[s], s))


def test_an_agenda_on_which_nothing_is_pending_says_never():
    agenda = new_agenda(5)

    assert agenda.times[earliest(agenda)] == NEVER
