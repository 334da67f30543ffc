"""Requests that are outstanding together: what they keep and hold stays where it is."""

import numpy as np
import pytest
from clusters import (
    ADMIT,
    ASK,
    COULD,
    FRAME_BASE,
    HOLD,
    KEEP,
    LEAVE,
    RELEASE,
    SERVE,
    Memory,
    act,
    frames_on_nic,
    pinned_pages,
)
from hypothesis import given
from hypothesis import strategies as st

from nicscope.config.design import Scheme
from nicscope.drivers.translation import counts_of, new_translations, space_numbering
from nicscope.interfaces.ways import IN_TIME
from nicscope.kernel.entry import bound
from nicscope.memory.numbering import find
from nicscope.nic.layout import IN_USE
from nicscope.nic.translate.book import (
    ADMITTED,
    DROP,
    FILL,
    MISS,
    REFUSED,
    REJECTED,
    UNKNOWN,
    UNPIN,
)
from oracle.strategies import designs
from trace_columns import design_of

SCHEMES = [scheme.value for scheme in IN_TIME if scheme is not Scheme.PINNED]
PAGES = 24  # of each of two address spaces
LONGEST = 6
NODE = 1  # of two

STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("request"),
            st.integers(0, 1),
            st.integers(0, PAGES - LONGEST),
            st.integers(1, LONGEST),
        ),
        st.tuples(st.sampled_from(("page", "page", "stop", "end")), st.integers(0, 9)),
    ),
    max_size=60,
)


def state_of(part, name=""):
    """Every byte of the translations that a refusal may not change."""
    if isinstance(part, tuple):
        return {
            key: value
            for field in part._fields
            for key, value in state_of(getattr(part, field), f"{name}.{field}").items()
        }
    if name.endswith((".numbers", ".pin_actions", ".pin_action_count", ".registers")):
        return {}
    return {name: np.asarray(part).tobytes()}


class Node:
    """One node, its outstanding requests and transfers, and a model of what they rely on."""

    def __init__(self, design):
        self.design = design
        self.line = design.line or 1
        numbering = space_numbering(design, 2, PAGES)
        self.numbering = numbering
        self.translations = new_translations(
            design, [numbering] * 2, [2] * 2, LONGEST, pages_per_space=PAGES
        )
        self.memory = Memory(self.line)
        self.requests = []  # process, pages still to ask for, all pages, own transfers
        self.transfers = []  # process, page, its request

    def key(self, process, page):
        unit = int(find(self.numbering, process, page // self.line))
        return unit * self.line + page % self.line

    def kept(self):
        if self.design.scheme in ("interrupt", "unet-mm"):
            return set()
        return {self.key(r["process"], page) for r in self.requests for page in r["all"]}

    def held(self):
        return {self.key(process, page) for process, page, _ in self.transfers}

    def call(self, what, process, first, pages=1):
        self.filled = set()
        result = int(bound(act, self.translations)(NODE, what, process, first, pages, 0))
        count = int(self.translations.host.pin_action_count[NODE][0])
        for deed in self.translations.host.pin_actions[NODE][:count]:
            what, key = int(deed["what"]), int(deed["key"])
            if what == UNPIN:
                assert key not in self.kept() | self.held()
            if what == DROP:
                assert not self.held() & set(range(key, key + self.line))
            if what == FILL:
                self.filled.add(key)
            self.memory.follow(what, key, int(deed["place"]))
        return result

    def request(self, process, first, pages):
        could = self.call(COULD, process, first, pages)
        before = state_of(self.translations)
        answer = self.call(ADMIT, process, first, pages)
        assert could == (answer != REFUSED)
        if answer == REFUSED:
            assert state_of(self.translations) == before
            assert self.kept()
        if answer == ADMITTED:
            every = range(first, first + pages)
            self.requests.append(
                {"process": process, "left": list(every), "all": every, "transfers": 0}
            )
            for page in every:
                self.call(KEEP, process, page)

    def page(self, which):
        """Ask for the next page of a request, serve it if need be, and begin to use it."""
        waiting = [request for request in self.requests if request["left"]]
        if not waiting:
            return
        request = waiting[which % len(waiting)]
        process, page = request["process"], request["left"][0]
        frame = self.call(ASK, process, page)
        if frame == MISS:
            before = state_of(self.translations)
            frame = self.call(SERVE, process, page)
            if frame == REFUSED:
                assert state_of(self.translations) == before
                assert self.held()
                return
            if frame >= 0:
                filled = self.filled
                assert self.key(process, page) in filled
                again = self.call(SERVE, process, page)  # it has come meanwhile
                if again == REFUSED:  # a page in use was prefetched to its place
                    assert self.design.prefetch > 1
                    self.filled = filled
                else:
                    frame = again
            if 0 <= frame < FRAME_BASE:  # or gone: what was prefetched after it took its place
                assert self.key(process, page) in self.filled
                assert self.design.prefetch > 1
                frame += FRAME_BASE
        request["left"].pop(0)
        if frame == REJECTED:
            assert self.design.scheme == "static"
            return
        assert frame == FRAME_BASE + self.key(process, page)
        self.call(HOLD, process, page)
        request["transfers"] += 1
        self.transfers.append((process, page, request))

    def stop(self, which):
        """End a transfer."""
        if self.transfers:
            process, page, request = self.transfers.pop(which % len(self.transfers))
            request["transfers"] -= 1
            self.call(RELEASE, process, page)

    def end(self, which):
        """End a request that moves no bytes."""
        idle = [request for request in self.requests if not request["transfers"]]
        if idle:
            request = idle[which % len(idle)]
            self.requests = [other for other in self.requests if other is not request]
            for page in request["all"]:
                self.call(LEAVE, request["process"], page)

    def end_all(self):
        while self.transfers:
            self.stop(0)
        while self.requests:
            self.end(0)


@pytest.mark.requirement("UT-16")
@pytest.mark.parametrize("scheme", SCHEMES)
@given(data=st.data())
def test_pages_in_use_stay_pinned_and_their_entries_on_the_nic(scheme, data):
    design = design_of({**data.draw(designs(scheme)), "page_size": 4096})
    node = Node(design)
    for step, *arguments in data.draw(STEPS):
        getattr(node, step)(*arguments)
    node.end_all()

    host, nic = node.translations.host, node.translations.nic
    assert not host.pinning.held.any()
    assert not host.in_use.any()
    assert not (nic.frames & np.uint32(IN_USE)).any()
    assert node.memory.pinned == pinned_pages(node.translations, NODE)
    if scheme != "utlb-process":
        frames = frames_on_nic(node.translations, NODE, design.scheme)
        assert frames == {page: FRAME_BASE + page for page in node.memory.on_nic}
    for process in (0, 1):
        assert node.call(ADMIT, process, 3, 1) == ADMITTED
        node.call(KEEP, process, 3)
        assert node.call(SERVE, process, 3) != REFUSED
        node.call(LEAVE, process, 3)


def test_a_page_in_use_may_be_prefetched_to_the_place_of_one_that_was_just_served():
    flat = {"scheme": "utlb", "entries": 1, "prefetch": 2, "page_size": 512}
    node = Node(design_of(flat))
    node.request(0, 10, 2)
    node.page(0)
    node.request(0, 9, 1)
    node.page(1)
    assert node.held() == {node.key(0, 10), node.key(0, 9)}
    node.end_all()


@given(data=st.data())
def test_the_high_water_is_kept_once_nothing_is_held(data):
    flat = {**data.draw(designs("handle")), "page_size": 4096}
    flat["high_water"] = data.draw(st.integers(0, 8))
    design = design_of(flat)
    node = Node(design)
    for step, *arguments in data.draw(STEPS):
        getattr(node, step)(*arguments)
    node.end_all()
    lines = PAGES // node.line
    for line in [*range(lines), *range(lines)]:  # each call unpins no more than it may write down
        if node.call(ASK, 0, line * node.line) == MISS:
            node.call(SERVE, 0, line * node.line)

    assert len(node.memory.pinned) <= max(flat["high_water"], len(node.memory.on_nic))


def test_pages_of_no_address_space_are_unknown():
    node = Node(design_of({"scheme": "utlb", "entries": 8, "prepin": 8, "page_size": 4096}))

    assert node.call(ADMIT, 0, PAGES - 1, 2) == UNKNOWN
    assert node.call(ASK, 0, PAGES) == UNKNOWN
    assert node.call(SERVE, 0, -1) == UNKNOWN
    assert node.call(ASK, 0, 5) == REJECTED  # nobody has pinned it
    assert node.call(ADMIT, 0, PAGES - 2, 1) == ADMITTED
    assert node.memory.pinned == {node.key(0, PAGES - 2), node.key(0, PAGES - 1)}


def test_two_pages_in_one_set_wait_for_each_others_transfers():
    node = Node(
        design_of({"scheme": "utlb", "entries": 8, "index_offset": False, "page_size": 4096})
    )
    node.request(0, 0, 1)
    node.request(0, 8, 1)
    node.page(0)

    assert node.call(ASK, 0, 8) == MISS
    assert node.call(SERVE, 0, 8) == REFUSED
    node.stop(0)
    assert node.call(SERVE, 0, 8) >= 0
    assert counts_of(node.translations, NODE)["entries_fetched"] == 3  # one in vain
    assert counts_of(node.translations, 0)["entries_fetched"] == 0


def test_a_request_waits_until_held_pages_make_room():
    flat = {"scheme": "utlb", "entries": 8, "pin_limit": 2, "page_size": 4096}
    node = Node(design_of(flat))
    node.request(0, 0, 2)

    assert node.call(COULD, 0, 2, 1) == 0
    assert node.call(ADMIT, 0, 2, 1) == REFUSED
    assert node.call(ADMIT, 1, 2, 1) == ADMITTED
    node.end(0)
    assert node.call(ADMIT, 0, 2, 1) == ADMITTED
