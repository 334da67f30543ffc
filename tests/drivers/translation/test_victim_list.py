"""The victim list of a kernel that serves endpoints: it grows while what it holds is in use."""

import numpy as np
import pytest
from clusters import ASK, HOLD, RELEASE, SERVE, Memory, act, pinned_pages
from hypothesis import given
from hypothesis import strategies as st

from nicscope.drivers.translation import new_translations, space_numbering
from nicscope.kernel.entry import bound
from nicscope.memory.numbering import capacity, find
from nicscope.nic.layout import IN_USE
from nicscope.nic.translate.book import MISS, REFUSED
from trace_columns import design_of

PAGES = 24
ENTRIES = 2
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, PAGES - 1)),
        st.tuples(st.just("send"), st.integers(0, 5)),
        st.tuples(st.just("end"), st.integers(0, 9)),
    ),
    max_size=80,
)


class List:
    """5.2.1 as one would first write it: a table, a list, and the pages on the transmit ring."""

    def __init__(self, nominal):
        self.nominal = nominal
        self.primary = {}
        self.victims = []
        self.sending = []

    def send(self, page):
        slot = page % ENTRIES
        if self.primary.get(slot) == page:
            pass
        elif page in self.victims:
            if self.primary.get(slot) not in self.sending:
                place = self.victims.index(page)
                del self.victims[place]
                if slot in self.primary:
                    self.victims.append(self.primary[slot])
                self.primary[slot] = page
        else:
            if slot in self.primary:
                self.victims.append(self.primary[slot])
                self.clean_up()  # "whenever a TLB entry is pushed"
            self.primary[slot] = page
        self.sending.append(page)

    def clean_up(self):
        idle = [page for page in self.victims if page not in self.sending]
        surplus = max(0, len(self.victims) - self.nominal)
        self.victims = [page for page in self.victims if page not in idle[:surplus]]


class Kernel:
    """The same, as it is compiled, with the pin actions applied by a model of memory."""

    def __init__(self, nominal, victims_grow=True):
        design = design_of(
            {
                "scheme": "unet-mm",
                "entries": ENTRIES,
                "victim_entries": nominal,
                "page_size": 4096,
            }
        )
        self.numbering = space_numbering(design, 1, PAGES)
        self.translations = new_translations(
            design, [self.numbering], [1], 1, pages_per_space=PAGES, victims_grow=victims_grow
        )
        self.memory = Memory()

    def call(self, what, page):
        result = int(bound(act, self.translations)(0, what, 0, page, 1, 0))
        pin_actions = self.translations.host.pin_actions[0][
            : int(self.translations.host.pin_action_count[0][0])
        ]
        assert what != ASK or len(pin_actions) == 0  # nobody follows deeds of a hit
        for deed in pin_actions:
            self.memory.follow(int(deed["what"]), int(deed["key"]), int(deed["place"]))
        return result

    def send(self, page):
        if self.call(ASK, page) == MISS and self.call(SERVE, page) == REFUSED:
            return REFUSED
        self.call(HOLD, page)
        return None

    def victims(self):
        count = int(self.translations.nic.registers[0][0]["victim_count"])
        tags = [int(victim["tag"]) for victim in self.translations.nic.victims[0][:count]]
        return [self.page(tag - 1) for tag in tags]

    def page(self, key):
        return next(page for page in range(PAGES) if int(find(self.numbering, 0, page)) == key)


@pytest.mark.requirement("UM-78", "UM-79")
@given(nominal=st.integers(0, 3), steps=STEPS)
def test_the_list_does_what_a_plain_list_does(nominal, steps):
    plain = List(nominal)
    kernel = Kernel(nominal)
    for step, number in steps:
        if step == "send":
            plain.send(number)
            assert kernel.send(number) is None  # never refused: there is always room
        elif plain.sending:
            page = plain.sending.pop(number % len(plain.sending))
            kernel.call(RELEASE, page)
        assert kernel.victims() == plain.victims
    pinned = {kernel.page(key) for key in pinned_pages(kernel.translations, 0)}
    assert pinned == {*plain.primary.values(), *plain.victims}
    assert pinned == {kernel.page(key) for key in kernel.memory.pinned}
    used = np.asarray(kernel.translations.nic.victims[0]["frame"]) & np.uint32(IN_USE)
    assert (used[: len(plain.victims)] != 0).sum() == sum(
        page in plain.sending for page in plain.victims
    )


@pytest.mark.requirement("UM-78")
def test_nine_pending_transmits_lie_in_a_list_of_two_and_leave_it_together():
    kernel = Kernel(2)
    pending = range(0, 2 * 10, ENTRIES)  # all of one slot
    for page in pending:
        kernel.send(page)
    assert kernel.victims() == list(pending)[:-1]

    for page in pending:
        kernel.call(RELEASE, page)
    assert len(kernel.victims()) == 9  # nothing is cleaned up before something enters
    kernel.send(20)
    assert kernel.victims() == [16, 18]
    assert len(kernel.memory.pinned) == 3


def test_a_list_of_fixed_size_refuses_where_one_that_grows_does_not():
    kernel = Kernel(2, victims_grow=False)
    assert [kernel.send(page) for page in (0, 2, 4, 6)] == [None, None, None, REFUSED]
    kernel.call(RELEASE, 2)
    assert kernel.send(6) is None
    assert kernel.victims() == [0, 4]


@pytest.mark.parametrize("nominal", [0, 2, 3 * PAGES])
def test_a_list_that_grows_has_room_for_every_page_and_for_all_of_them_to_leave_at_once(nominal):
    kernel = Kernel(nominal)
    room = len(kernel.translations.nic.victims[0]) - 1  # the last place is for who is on its way in
    pages = capacity(kernel.numbering)
    assert room == max(pages, nominal)

    fixed = Kernel(nominal, victims_grow=False)
    for cluster in (kernel, fixed):
        assert cluster.translations.host.pin_actions.shape[0] == 1
    more = len(kernel.translations.host.pin_actions[0]) - len(
        fixed.translations.host.pin_actions[0]
    )
    assert more == 2 * (room - nominal)  # an unpin and its page, for each above the nominal
