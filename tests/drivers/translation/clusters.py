"""A cluster's translations driven page by page; a model of memory applies the pin actions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nicscope.drivers.replay.columns import TracePartitioner, new_stream
from nicscope.drivers.replay.engine import line_bits_of
from nicscope.drivers.replay.page_numbering import numbering_of
from nicscope.drivers.translation import new_translations
from nicscope.kernel.decorators import kernel, routine
from nicscope.kernel.entry import bound
from nicscope.memory.pinning import PINNED
from nicscope.nic.layout import EMPTY, FRAME_BITS
from nicscope.nic.translate.book import (
    ADMITTED,
    DROP,
    FILL,
    MISS,
    PIN,
    UNPIN,
    clear_pin_actions,
    note_request,
    write_frame,
)
from nicscope.nic.translate.requests import (
    admit_request,
    ask,
    could_admit,
    key_of_page,
    page_of_key,
    serve,
)
from nicscope.nic.translate.state import (
    Translations,
    hold_key,
    keep_page,
    release_key,
    release_page,
    translation_of,
)

FRAME_BASE = 100_000  # page number k of the model lies in frame FRAME_BASE + k

ADMIT, ASK, SERVE, COULD, KEEP, LEAVE, HOLD, RELEASE = range(8)


@kernel
def act(translations, n, what, process, first, pages, receive):
    """As ``_act``, from Python."""
    return _act(translations, n, what, process, first, pages, receive)


@routine
def _act(translations, n, what, process, first, pages, receive):
    """One call of node ``n``'s translation, the pin actions applied on the NIC but not cleared."""
    nic, host, book = translation_of(translations, n)
    clear_pin_actions(host)
    scheme = book.orders[0].scheme
    key = key_of_page(host, book, process, first)
    result = np.int64(0)
    if what == ADMIT:
        result = admit_request(scheme, nic, host, book, process, first, pages)
    elif what == ASK:
        result = ask(scheme, nic, host, book, process, first, receive)
    elif what == SERVE:
        result = serve(scheme, nic, host, book, process, first)
    elif what == COULD:
        result = np.int64(could_admit(scheme, host, book, process, first, pages))
    elif what == KEEP:
        keep_page(host, book, key)
    elif what == LEAVE:
        release_page(nic, host, book, process, first, key)
    elif what == HOLD:
        hold_key(nic, host, book, process, first, key)
    else:
        release_key(nic, host, book, process, first, key)
    for i in range(min(host.pin_action_count[0], host.pin_actions.size)):
        if host.pin_actions[i].what == FILL:
            write_frame(nic, host.pin_actions[i].place, FRAME_BASE + host.pin_actions[i].key)
    return result


class Driven(NamedTuple):
    """What ``drive`` is handed over."""

    translations: Translations
    requests: Any
    log: Any
    found: Any  # how many deeds, the most of one call, wrong answers


def drive(translations, requests, log):
    """``_drive`` of what is handed over."""
    found = np.zeros(3, np.int64)
    bound(_drive, Driven(translations, requests, log, found))()
    return found.tolist()


@kernel
def _drive(driven):
    """Admit, ask and serve ``requests``, rows of (node, process, first, pages, receive).

    Pin actions go to ``log``, rows of (node, what, key, place).  Returns how many there are, the
    most of one call, and how many answers were neither a page's frame nor a refusal.
    """
    translations = driven.translations
    requests = driven.requests
    log = driven.log
    logged = 0
    most = 0
    wrong = 0
    for row in range(len(requests)):
        n, process, first = requests[row, 0], requests[row, 1], requests[row, 2]
        pages, receive = requests[row, 3], requests[row, 4]
        _, host, book = translation_of(translations, n)
        note_request(book, pages, receive)
        admitted = _act(translations, n, ADMIT, process, first, pages, receive)
        logged, most = _move_deeds(host, n, log, logged, most)
        if admitted != ADMITTED:
            continue
        for page in range(first, first + pages):
            frame = _act(translations, n, ASK, process, page, 1, receive)
            logged, most = _move_deeds(host, n, log, logged, most)
            if frame == MISS:
                served = _act(translations, n, SERVE, process, page, 1, receive)
                logged, most = _move_deeds(host, n, log, logged, most)
                if served < 0:
                    continue
            key = key_of_page(host, book, process, page)
            owner, again = page_of_key(host, book, key)
            wrong += owner != process or again != page
            if frame != MISS:
                wrong += frame != FRAME_BASE + key
    driven.found[0] = logged
    driven.found[1] = most
    driven.found[2] = wrong


@kernel
def _move_deeds(host, n, log, logged, most):
    count = host.pin_action_count[0]
    for i in range(count):
        log[logged, 0] = n
        log[logged, 1] = host.pin_actions[i].what
        log[logged, 2] = host.pin_actions[i].key
        log[logged, 3] = host.pin_actions[i].place
        logged += 1
    clear_pin_actions(host)
    return logged, max(most, count)


def of_trace(columns, design):
    """Translations that know a trace's pages, its requests by node, and the nodes' numbers."""
    page_bits = design.page_size.bit_length() - 1
    parter = TracePartitioner()
    rows = len(parter.owners(columns, range(len(columns.node))))
    whole = new_stream(rows)
    requests, numberings, places = [], [], []
    for place, begin, end in parter.shares(page_bits, whole):
        stream = type(whole)(*(column[begin:end] for column in whole))
        numberings.append(numbering_of(stream, line_bits_of(design), (design.prepin or 1) - 1))
        node = np.full(len(stream.first), len(places))
        columns_of_node = (node, stream.process, stream.first, stream.pages, stream.receive)
        requests.append(np.stack([each.astype(np.int64) for each in columns_of_node], axis=1))
        places.append(place)
    rows = np.concatenate(requests)
    translations = new_translations(
        design,
        numberings,
        [int(parter.directory.processes[place]) for place in places],
        int(rows[:, 3].max()),
        node_numbers=[int(parter.directory.nodes[place]) for place in places],
    )
    return translations, rows, [int(parter.directory.nodes[place]) for place in places]


class Memory:
    """What applying a node's pin actions shows."""

    def __init__(self, line=1):
        self.line = line
        self.pinned = set()
        self.on_nic = set()

    def follow(self, what, key, place):
        if what == PIN:
            assert key not in self.pinned
            self.pinned.add(key)
        elif what == UNPIN:
            self.pinned.remove(key)
        elif what == FILL:
            assert key in self.pinned
            assert key not in self.on_nic
            assert place >= 0
            self.on_nic.add(key)
        else:
            assert what == DROP
            for page in range(self.line):
                self.on_nic.remove(key + page)


def pinned_pages(translations, n):
    return set(np.flatnonzero(np.asarray(translations.host.pinning.state[n]) & PINNED).tolist())


def frames_on_nic(translations, n, scheme):
    """Page number: frame, of every translation that node ``n``'s NIC holds."""
    nic, host = translations.nic, translations.host
    frames = np.asarray(nic.frames[n]).astype(np.int64) & FRAME_BITS
    line = max(int(nic.config[n][0]["line"]), 1)
    if scheme in ("static", "utlb-process"):
        return {frame - FRAME_BASE: frame for frame in frames.tolist() if frame >= FRAME_BASE}
    found = {}
    ways = int(nic.config[n][0]["ways"])
    places = np.asarray(nic.places[n])
    for i, tag in enumerate(np.asarray(nic.tags[n]).tolist()):
        if tag == EMPTY:
            continue
        entry = i // ways * ways + int(places[i]) if len(places) else i
        for page in range(line):
            key = (tag - 1) * line + page
            if scheme == "utlb-shared":
                key = int(host.indices.page_of[n][key]) - 1
            found[key] = int(frames[entry * line + page])
    for victim in nic.victims[n][: int(nic.registers[n][0]["victim_count"])]:
        found[int(victim["tag"]) - 1] = int(victim["frame"]) & FRAME_BITS
    return found
