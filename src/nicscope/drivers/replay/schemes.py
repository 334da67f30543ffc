"""How each translation scheme answers a piece of the requests: one kernel's pass after the other.

A scheme's passes are those of others as far as they do the same: the NIC looks up, the host does
what misses ask for, the book is written (``note_lookups``, or ``note_missed`` where nothing is
invalidated).  ``passes_of``, at the end, puts them together for a design; RDMA NICs are in
``rnic``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nicscope.config.design import Design, Scheme
from nicscope.drivers.replay.state import laid_out, request_of, timeless
from nicscope.hashing import LOW
from nicscope.kernel.decorators import kernel, step
from nicscope.memory.indices import hand_on_index
from nicscope.memory.numbering import process_of, unit_of
from nicscope.memory.pinning import PINNED, pin, unpin, use, use_or_exchange, victim_of
from nicscope.memory.replacement import Replacement
from nicscope.nic.cache import FOUR, drop_in, fill, lookup, renew
from nicscope.nic.layout import EMPTY, SEARCHED_WAYS
from nicscope.nic.recency import append_held, drop_held, keep_uses, renew_held, uses_of
from nicscope.nic.translate import utlb
from nicscope.nic.translate.book import (
    INVALIDATED,
    MISS,
    MISSED,
    NOT_DONE,
    SEEN,
    add_misses,
    note_changes,
    note_fill,
    note_interrupts,
    pin_page,
    unpin_page,
)
from nicscope.nic.translate.handle import bring_line, unpin_surplus
from nicscope.nic.translate.interrupt import serve_interrupt
from nicscope.nic.translate.state import set_of
from nicscope.nic.translate.static import begin_registering, copy_request, serve_static
from nicscope.nic.translate.unet_mm import evict_above_cap, unpin_evicted
from nicscope.nic.victim import ABSENT, add_victim, append_victim, find_victim, remove_victim

# The pass over the cache that all schemes share, and the counts: why lookups missed.


@kernel
def note_lookups(case, _begin, _end, count):
    """Counts ``count`` lookups, whose outcomes are written down, in the order of issue."""
    book = case.book
    compulsory, compulsory_received = _note_firsts(case, count)
    conflict = np.int64(0)
    if book.orders[0].kinds:
        conflict = _note_in_shadow(case, count)
    misses = np.int64(0)
    received = np.int64(0)
    invalidated = np.int64(0)
    for i in range(count):
        outcome = np.int64(case.outcome[i])
        misses += outcome & MISSED
        received += outcome & MISSED & np.int64(case.receive[i])
        invalidated += outcome & outcome >> 1 & MISSED
    add_misses(book, misses, received, compulsory, compulsory_received, invalidated, conflict)


@step
def _note_firsts(case, count):
    """Marks the keys looked up; returns how many misses were the first lookup of their key."""
    past = case.book.past
    misses = np.int64(0)
    received = np.int64(0)
    for i in range(count):
        key = case.key[i]
        if past[key] & SEEN == 0 and case.outcome[i] != NOT_DONE:
            missed = np.int64(case.outcome[i]) & MISSED
            past[key] |= SEEN
            case.outcome[i] = missed  # fetched ahead and dropped before, it is compulsory still
            misses += missed
            received += missed & np.int64(case.receive[i])
    return misses, received


@step
def _note_in_shadow(case, count):
    """Looks all up in the shadow cache too; returns how many misses would have hit there.

    A key's first lookup is not among them, nor are those whose entry was invalidated.
    """
    shadow = case.book.shadow
    now, oldest, word, left = uses_of(shadow)
    conflict = np.int64(0)
    for i in range(count):
        outcome = np.int64(case.outcome[i])
        if outcome == NOT_DONE:
            continue
        key = np.int64(case.key[i])
        present, _, now, oldest, word, left = renew_held(shadow, key, now, oldest, word, left)
        conflict += present & outcome & (1 - (outcome >> 1))
    keep_uses(shadow, now, oldest, left)
    return conflict


@kernel
def note_missed(case, _begin, _end, count):
    """Note ``count`` lookups of which those that missed are listed, where nothing is invalidated.

    A key's first lookup is among them, as nothing is fetched ahead.  Only these stay in the list.
    """
    book, past = case.book, case.book.past
    tells = book.orders[0].kinds
    if tells:
        _find_in_shadow(case, count)
    misses = np.int64(case.found[0])
    received, compulsory, conflict = np.int64(0), np.int64(0), np.int64(0)
    compulsory_received = np.int64(0)
    if tells:
        for place in range(misses):
            conflict += np.int64(case.outcome[case.missed[place]])
    for place in range(misses):
        i = case.missed[place]
        key = case.key[i]
        first = np.int64(past[key] & SEEN == 0)
        past[key] |= SEEN
        receive = np.int64(case.receive[i])
        received += receive
        case.missed[compulsory] = i
        compulsory += first
        compulsory_received += first & receive
    case.found[0] = compulsory
    add_misses(book, misses, received, compulsory, compulsory_received, 0, conflict)


@step
def _find_in_shadow(case, count):
    """Look all up in the shadow cache too; the outcome of each is 1 if it was there."""
    shadow = case.book.shadow
    now, oldest, word, left = uses_of(shadow)
    for i in range(count):
        key = np.int64(case.key[i])
        present, _, now, oldest, word, left = renew_held(shadow, key, now, oldest, word, left)
        case.outcome[i] = present
    keep_uses(shadow, now, oldest, left)


MORE = SEARCHED_WAYS + 1  # how many more makes no difference to the loop


@kernel
def look_up_all(case, _begin, _end, count):
    """Look up ``count`` units: lists which missed, and what left for each, for later passes."""
    _look_up_by_ways(case, count, True)


@kernel
def look_up_listing_misses(case, _begin, _end, count):
    """Look up ``count`` units: lists which missed; what they evicted, no later pass asks."""
    _look_up_by_ways(case, count, False)


@step
def _look_up_by_ways(case, count, lists_evicted):
    """Look up ``count`` units by a loop that is compiled for the cache's number of ways."""
    nic, _, book = timeless(case)
    ways = nic.config[0].ways
    if ways == 1:
        _look_up_each(case, nic, book, count, 1, lists_evicted)
    elif ways == FOUR:
        _look_up_each(case, nic, book, count, FOUR, lists_evicted)
    elif ways > SEARCHED_WAYS:
        _look_up_each(case, nic, book, count, MORE, lists_evicted)
    else:
        _look_up_each(case, nic, book, count, ways, lists_evicted)


@step
def _look_up_each(case, nic, book, count, ways, lists_evicted):
    last_set = nic.config[0].sets - 1
    found = np.int64(0)
    further = np.int64(0)
    for i in range(count):
        tag = np.int64(case.key[i]) + 1
        depth, evicted = renew(nic, np.int64(case.set_index[i]) & last_set, tag, ways)
        missed = np.int64(depth == ways)
        case.missed[found] = i
        if lists_evicted:
            case.evicted[found] = evicted
        found += missed
        further += depth - missed
    case.found[0] = found
    book.counts[0].further_ways += further * np.int64(ways <= SEARCHED_WAYS)


@kernel
def look_up_single_set(case, _begin, _end, count):
    """As ``look_up_all``, of a cache of one set, which holds the latest keys looked up."""
    held = case.held
    now, oldest, word, left = uses_of(held)
    found = np.int64(0)
    for i in range(count):
        key = np.int64(case.key[i])
        present, evicted, now, oldest, word, left = renew_held(held, key, now, oldest, word, left)
        case.missed[found] = i
        case.evicted[found] = evicted
        found += 1 - present
    keep_uses(held, now, oldest, left)
    case.found[0] = found


# Designs without a translation cache: a copied buffer area, static registration.


@kernel
def replay_pinned(case, begin, end, _count):
    """Copy requests ``begin..end`` through their process's pinned area."""
    _, host, book = timeless(case)
    for row in range(begin, end):
        copy_request(host, book, case.stream.process[row], case.stream.length[row])


@kernel
def replay_static(case, begin, end, _count):
    """Register every page of requests ``begin..end`` at first use, while the table has room."""
    nic, host, book = timeless(case)
    at = np.int64(0)
    for row in range(begin, end):
        request = request_of(case, row, at)
        at += request.pages
        begin_registering(host, request.process)
        for place in range(request.pages):
            key = np.int64(case.number[request.at + place])
            if host.pinning.state[key] & PINNED == 0:
                serve_static(nic, host, book, request.process, request.first + place, key)


# miNI's dynamic handle lookup, line by line.  The host has no say in which lines the NIC holds: it
# comes after all lookups of a piece.  One lookup serves all pages of a request in a line: further
# ones hit whatever the first does, and leave everything as it is.


@kernel
def bring_missed(case, _begin, _end, _count):
    """Fetches every line that missed from the host."""
    _, host, book = timeless(case)
    for place in range(case.found[0]):
        key = np.int64(case.number[case.missed[place]])
        process = process_of(host.numbering, key)
        bring_line(host, book, process, key, np.int64(case.evicted[place]))
        if book.orders[0].high_water >= 0:
            unpin_surplus(host, book)


# The interrupt-based baseline.  Without a limit the host has no say in what the NIC holds: it comes
# after all lookups of a piece.


@kernel
def interrupt_missed(case, _begin, _end, _count):
    """Interrupt the host for every lookup that missed: it unpins what left, and pins the page."""
    _, host, book = timeless(case)
    unpinned, most = np.int64(0), np.int64(0)
    for place in range(case.found[0]):
        key = np.int64(case.number[case.missed[place]])
        evicted = np.int64(case.evicted[place])
        if evicted != EMPTY:
            unpin(host.pinning, process_of(host.numbering, evicted - 1), evicted - 1)
            unpinned += 1
        pin(host.pinning, process_of(host.numbering, key), key, 1)
        most = max(most, place + 1 - unpinned)
    note_changes(book, case.found[0], unpinned, most)
    note_interrupts(book, case.found[0])


@kernel
def replay_interrupt(case, _begin, _end, count):
    """Replay ``count`` lookups, each page on its own, under a limit."""
    nic, host, book = timeless(case)
    last_set = nic.config[0].sets - 1
    for i in range(count):
        key = np.int64(case.number[i])
        process = process_of(host.numbering, key)
        entry = lookup(nic, np.int64(case.set_index[i]) & last_set, key + 1, book.counts)
        if entry != MISS:
            case.outcome[i] = 0
            use(host.pinning, process, key)
        else:
            case.outcome[i] = MISSED | (np.int64(book.past[key]) & INVALIDATED)
            serve_interrupt(nic, host, book, process, unit_of(host.numbering, key), key)


# U-Net/MM.  The primary does not depend on the victim cache, which comes after it; under a cap on
# valid entries it does, and a lookup is done with before the next begins.


@kernel
def look_up_victims(case, _begin, _end, _count):
    """Looks up primary misses in the victim cache; what misses there too stays listed.

    What the primary evicted joins the victims, of which the first in leaves if they are too many.
    That is kept as an order of use, in which a victim that is called back is dropped.
    """
    victims = case.held
    now, oldest, word, left = uses_of(victims)
    missed = np.int64(0)
    for at in range(case.found[0]):
        i = case.missed[at]
        displaced = np.int64(case.evicted[at])
        here, word, left = drop_held(victims, case.number[i], oldest, word, left)
        gone = np.int64(EMPTY)
        if displaced != EMPTY:
            gone, now, oldest, word, left = append_held(
                victims, displaced - 1, now, oldest, word, left
            )
        case.missed[missed] = i
        case.evicted[missed] = gone
        missed += 1 - here
    keep_uses(victims, now, oldest, left)
    case.book.counts[0].victim_hits += case.found[0] - missed
    case.found[0] = missed


@kernel
def replay_unet_mm(case, _begin, _end, count):
    """Replay ``count`` lookups, each page on its own, under the kernel's cap on valid entries."""
    nic, host, book = timeless(case)
    last_slot = nic.config[0].sets - 1
    for i in range(count):
        key = np.int64(case.number[i])
        slot = np.int64(case.set_index[i]) & last_slot
        case.outcome[i] = 0
        if lookup(nic, slot, key + 1, book.counts) != MISS:
            continue
        place = find_victim(nic, key + 1)
        if place != ABSENT:
            book.counts[0].victim_hits += 1
            remove_victim(nic, place)
            fill(nic, slot, key + 1)
            if nic.registers[0].evicted != EMPTY:
                append_victim(nic, nic.registers[0].evicted, 0)
            continue
        case.outcome[i] = MISSED | (np.int64(book.past[key]) & INVALIDATED)
        evict_above_cap(nic, host, book, slot)
        fill(nic, slot, key + 1)
        if nic.registers[0].evicted != EMPTY:
            leaving = add_victim(nic, nic.registers[0].evicted, 0)
            if leaving != EMPTY:
                unpin_evicted(host, book, leaving - 1)
        note_interrupts(book, 1)
        pin_page(host, book, process_of(host.numbering, key), key, 1)
        note_fill(book, key)


# The three UTLBs: the user library admits a request, then the NIC looks up its pages.
#
# Without a limit nothing is ever unpinned, and without prefetching nobody asks for a page that is
# not pinned yet: then it makes no difference to the NIC when a page is pinned, and the user library
# comes after the NIC, for what that never saw before (``admit_first``), or before it where the NIC
# knows pages by indices that the library gives (``admit_new``).  With a limit alone the library
# needs nothing of the NIC either: it comes first, and lists what has to leave the NIC before each
# request (``admit_within_limit``).  Else they take turns, request by request.


@kernel
def admit_new(case, begin, end, count):
    """Admit the requests of which a page is not pinned; all others need nothing of the library.

    They are ``begin..end`` and have ``count`` lookups.
    """
    state = case.host.pinning.state
    found = np.int64(0)
    for i in range(count):
        case.evicted[found] = i
        found += np.int64(state[case.number[i]] & PINNED == 0)
    _admit_listed(case, begin, end, found)


@kernel
def admit_first(case, begin, end, _count):
    """As ``admit_new``, after the lookups: never pinned pages are among those never seen before."""
    state = case.host.pinning.state
    found = np.int64(0)
    for place in range(case.found[0]):
        i = case.missed[place]
        case.evicted[found] = i
        found += np.int64(state[case.number[i]] & PINNED == 0)
    _admit_listed(case, begin, end, found)


@step
def _admit_listed(case, begin, end, found):
    """Admit the requests of the lookups that the first ``found`` places of ``evicted`` name.

    A request that has further pages of a unit that was looked up, and pinned, for the one before it
    has them pinned by a call of its own.
    """
    if found == 0 and case.fresh[0] == 0:
        return
    if _has_one_lookup_each(case, begin, end):
        _admit_single(case, begin, end, found)
        return
    nic, host, book = timeless(case)
    state = host.pinning.state
    fresh, calls = case.fresh[0], np.int64(0)
    at, place = np.int64(0), np.int64(0)
    for row in range(begin, end):
        shared = fresh & np.int64(case.opened[row])
        after = at + np.int64(case.laid[row])
        if place < found and np.int64(case.evicted[place]) < after:
            while place < found and np.int64(case.evicted[place]) < after:
                place += 1
            shared &= np.int64(state[case.number[at]] & PINNED != 0)  # else one call has both
            fresh = np.int64(state[case.number[after - 1]] & PINNED == 0)
            utlb.admit(nic, host, book, case.number, laid_out(case, row, at))
        elif after > at:
            fresh = np.int64(0)
        calls += shared
        at = after
    case.fresh[0] = fresh
    book.counts[0].pin_calls += calls


@step
def _has_one_lookup_each(case, begin, end):
    """Whether each of the requests ``begin..end`` has one lookup and no further pages of another.

    Then the lookups are in the order of the requests, and nobody need count through these.
    """
    others = np.int64(0)
    for row in range(begin, end):
        others |= np.int64(case.laid[row] ^ 1) | np.int64(case.opened[row])
    return others == 0


@step
def _admit_single(case, begin, end, found):
    """As ``_admit_listed``, of requests of one lookup each."""
    nic, host, book = timeless(case)
    state = host.pinning.state
    fresh = np.int64(0)
    for place in range(found):
        at = np.int64(case.evicted[place])
        is_last = np.int64(begin + at == end - 1)
        fresh = is_last & np.int64(state[case.number[at]] & PINNED == 0)
        utlb.admit(nic, host, book, case.number, laid_out(case, begin + at, at))
    case.fresh[0] = fresh


@kernel
def find_indices(case, _begin, _end, count):
    """Finds the table indices by which the cache knows ``count`` pinned pages."""
    indices = case.host.indices
    for i in range(count):
        case.key[i] = indices.key_of[case.number[i]]
    _find_sets(case, count)


@step
def _find_sets(case, count):
    """Find the sets of the entries that are known by their indices in their processes' tables."""
    keys, each = case.host.indices.keys, case.book.orders[0].offset_step
    for i in range(count):
        key = np.int64(case.key[i])
        case.set_index[i] = (unit_of(keys, key) + process_of(keys, key) * each) & LOW


@kernel
def fetch_missed(case, _begin, _end, _count):
    """Counts one entry fetched by the NIC for every lookup that missed."""
    case.book.counts[0].entries_fetched += case.found[0]


@kernel
def admit_within_limit(case, begin, end, _count):
    """Admit requests ``begin..end``, and list the tags of the pages that each has unpinned.

    They stand in ``evicted`` at the request's lookups: no more of them go than pages come.
    """
    if _has_one_lookup_each(case, begin, end):
        _admit_single_within_limit(case, begin, end)
    else:
        _admit_many(case, begin, end)


@step
def _admit_single_within_limit(case, begin, end):
    """The same for requests of one page each, by a loop that is compiled for the policy."""
    policy = case.host.pinning.rules[0].policy
    if policy == Replacement.LRU:
        _admit_single_pages(case, begin, end, Replacement.LRU)
    elif policy == Replacement.MRU:
        _admit_single_pages(case, begin, end, Replacement.MRU)
    elif policy == Replacement.LFU:
        _admit_single_pages(case, begin, end, Replacement.LFU)
    elif policy == Replacement.MFU:
        _admit_single_pages(case, begin, end, Replacement.MFU)
    else:
        _admit_single_pages(case, begin, end, Replacement.RANDOM)


@step
def _admit_many(case, begin, end):
    """``admit_within_limit`` for requests of any number of pages."""
    nic, host, book = timeless(case)
    rules = host.pinning.rules[0]
    at = np.int64(0)
    for row in range(begin, end):
        request = request_of(case, row, at)
        at += request.pages
        for i in range(request.at, at):
            case.evicted[i] = EMPTY
            case.key[i] = case.number[i]
        if request.pages > rules.limit:
            book.counts[0].rejected += 1
            continue
        fresh = utlb.use_pinned(host, case.number, request)
        if fresh > 0:
            book.counts[0].check_misses += fresh
            last = request.first + request.pages - 1
            _list_unpinned(case, host, book, request, last, fresh)
            utlb.pin_runs(nic, host, book, case.number, request, fresh, last)
        if host.indices.tables.size > 0:
            for i in range(request.at, at):
                case.key[i] = host.indices.key_of[case.number[i]]


@step
def _list_unpinned(case, host, book, request, last, fresh):
    """As ``make_room``, but what leaves the NIC for it is listed."""
    owner = host.pinning.processes[request.process]
    at = request.at
    while owner.pinned + fresh > host.pinning.rules[0].limit:
        page = victim_of(host.pinning, host.numbering, request.process, request.first, last)
        case.evicted[at] = utlb.leave_table(host, request.process, page) + 1
        unpin_page(host, book, request.process, page)
        book.counts[0].unpin_calls += 1
        at += 1


@step
def _admit_single_pages(case, begin, end, policy):
    nic, host, book = timeless(case)
    pinning = host.pinning
    limit = pinning.rules[0].limit
    by_index = host.indices.tables.size > 0
    pinned, exchanged = np.int64(0), np.int64(0)
    for row in range(begin, end):
        i = row - begin
        process, page = np.int64(case.stream.process[row]), np.int64(case.number[i])
        tag = np.int64(EMPTY)
        if pinning.processes[process].pinned < limit:
            if pinning.state[page] & PINNED != 0:
                use(pinning, process, page)
            else:
                utlb.pin_in_table(nic, host, book, process, page)
                pinned += 1
            if by_index:
                case.key[i] = host.indices.key_of[page]
        else:
            tag = use_or_exchange(pinning, process, page, policy)
            gone = np.int64(tag != EMPTY)
            exchanged += gone
            if by_index:
                before = tag - 1 if gone else page
                key = hand_on_index(host.indices, process, before, page)
                case.key[i] = host.indices.key_of[page]
                tag = (key + 1) * gone
        case.evicted[i] = tag
    counts = book.counts[0]
    counts.check_misses += pinned + exchanged
    counts.pin_calls += pinned + exchanged
    counts.pins += exchanged
    counts.unpins += exchanged
    counts.unpin_calls += exchanged


@kernel
def look_up_unpinning(case, begin, end, count):
    """Look up ``count`` pages; before each request's, what was unpinned for it leaves the NIC."""
    _look_up_unpinning_by_ways(case, case.host.numbering, begin, end, count)


@kernel
def look_up_unpinning_shared(case, begin, end, count):
    """The same with the cache keyed by table index."""
    _find_sets(case, count)
    _look_up_unpinning_by_ways(case, case.host.indices.keys, begin, end, count)


@step
def _look_up_unpinning_by_ways(case, keys, begin, end, count):
    ways = case.nic.config[0].ways
    if ways == 1:
        _look_up_unpinning(case, keys, begin, end, count, 1)
    elif ways == FOUR:
        _look_up_unpinning(case, keys, begin, end, count, FOUR)
    else:
        _look_up_unpinning(case, keys, begin, end, count, ways)


@step
def _look_up_unpinning(case, keys, begin, end, count, ways):
    nic, _, book = timeless(case)
    limit, last_set = case.host.pinning.rules[0].limit, nic.config[0].sets - 1
    misses, further = np.int64(0), np.int64(0)
    if _has_one_lookup_each(case, begin, end):
        for i in range(count):
            _drop_unpinned(case, nic, book, keys, i, ways)
            row = np.int64(case.set_index[i]) & last_set
            depth, missed = _look_up(case, nic, book, i, row, np.int64(case.key[i]), ways)
            misses += missed
            further += depth - missed
    else:
        at = np.int64(0)
        for row in range(begin, end):
            before, at = at, at + np.int64(case.laid[row])
            if at - before > limit:
                _mark_rejected_lookups(case, before, at)
                continue
            for i in range(before, at):
                _drop_unpinned(case, nic, book, keys, i, ways)
            for i in range(before, at):
                chosen = np.int64(case.set_index[i]) & last_set
                depth, missed = _look_up(case, nic, book, i, chosen, np.int64(case.key[i]), ways)
                misses += missed
                further += depth - missed
    _add_fetched(nic, book, misses, further)


@step
def _drop_unpinned(case, nic, book, keys, i, ways):
    """The entry listed at lookup ``i``, if there is one, leaves the NIC if it is there."""
    tag = np.int64(case.evicted[i])
    if tag != EMPTY:
        key = tag - 1
        row = set_of(nic, book, process_of(keys, key), unit_of(keys, key))
        book.past[key] |= INVALIDATED * np.int64(drop_in(nic, row, tag, ways))


@kernel
def look_up_single_set_unpinning(case, begin, end, _count):
    """As ``look_up_unpinning``, of a cache of one set, which holds the latest keys looked up."""
    held, past = case.held, case.book.past
    limit = case.host.pinning.rules[0].limit
    now, oldest, word, left = uses_of(held)
    misses, at = np.int64(0), np.int64(0)
    for row in range(begin, end):
        before, at = at, at + np.int64(case.laid[row])
        if at - before > limit:
            _mark_rejected_lookups(case, before, at)
            continue
        for i in range(before, at):
            key = np.int64(case.evicted[i]) - 1
            if key >= 0:
                gone, word, left = drop_held(held, key, oldest, word, left)
                past[key] |= INVALIDATED * gone
        for i in range(before, at):
            key = np.int64(case.key[i])
            present, _, now, oldest, word, left = renew_held(held, key, now, oldest, word, left)
            _write_outcome(case, past, i, key, 1 - present)
            misses += 1 - present
    keep_uses(held, now, oldest, left)
    case.book.counts[0].entries_fetched += misses


@kernel
def replay_utlb(case, begin, end, _count):
    """Replay requests ``begin..end`` with the cache keyed by page."""
    nic, host, book = timeless(case)
    prefetches = book.orders[0].prefetch > 1
    at, misses, further = np.int64(0), np.int64(0), np.int64(0)
    for row in range(begin, end):
        request = request_of(case, row, at)
        at += request.pages
        if not utlb.admit(nic, host, book, case.number, request):
            _mark_rejected_lookups(case, request.at, at)
            continue
        for i in range(request.at, at):
            key = np.int64(case.number[i])
            page = request.first + i - request.at
            chosen = set_of(nic, book, request.process, page)
            depth, missed = _look_up(case, nic, book, i, chosen, key, nic.config[0].ways)
            misses += missed
            further += depth - missed
            if prefetches and missed:
                utlb.prefetch_pages(nic, host, book, request.process, page)
    _add_fetched(nic, book, misses, further)


@kernel
def replay_utlb_shared(case, begin, end, _count):
    """Replay requests ``begin..end`` with the cache keyed by table index (UTLB 3.2)."""
    nic, host, book = timeless(case)
    prefetches = book.orders[0].prefetch > 1
    at, misses, further = np.int64(0), np.int64(0), np.int64(0)
    for row in range(begin, end):
        request = request_of(case, row, at)
        at += request.pages
        if not utlb.admit(nic, host, book, case.number, request):
            _mark_rejected_lookups(case, request.at, at)
            continue
        for i in range(request.at, at):
            key = np.int64(host.indices.key_of[case.number[i]])
            index = unit_of(host.indices.keys, key)
            chosen = set_of(nic, book, request.process, index)
            depth, missed = _look_up(case, nic, book, i, chosen, key, nic.config[0].ways)
            misses += missed
            further += depth - missed
            if prefetches and missed:
                utlb.prefetch_indices(nic, host, book, request.process, index)
    _add_fetched(nic, book, misses, further)


@kernel
def replay_utlb_process(case, begin, end, _count):
    """Replay through tables that hold every pinned page on the NIC (UTLB 3.1): none misses."""
    nic, host, book = timeless(case)
    if book.orders[0].prepin == 1 and _has_one_lookup_each(case, begin, end):
        _admit_single_within_limit(case, begin, end)
        return
    at = np.int64(0)
    for row in range(begin, end):
        request = request_of(case, row, at)
        at += request.pages
        utlb.admit(nic, host, book, case.number, request)


@step
def _mark_rejected_lookups(case, begin, end):
    """Marks the lookups of a rejected request as skipped."""
    for i in range(begin, end):
        case.key[i] = case.number[i]
        case.outcome[i] = NOT_DONE


@step
def _look_up(case, nic, book, i, row, key, ways):
    """Look up ``key`` in set ``row``, and fetch its entry if it is not there.

    Returns how deep in its set it was found, and 1 if it was not.
    """
    depth, _ = renew(nic, row, key + 1, ways)
    missed = np.int64(depth == ways)
    case.key[i] = key
    _write_outcome(case, book.past, i, key, missed)
    return depth, missed


@step
def _write_outcome(case, seen, i, key, missed):
    """Write down whether lookup ``i`` of ``key`` missed, and if it did for an unpinned page."""
    past = np.int64(seen[key])
    case.outcome[i] = missed | (past & INVALIDATED & -missed)
    seen[key] = past & ~INVALIDATED  # it is there now


@step
def _add_fetched(nic, book, misses, further):
    counts = book.counts[0]
    counts.entries_fetched += misses
    counts.further_ways += further * np.int64(nic.config[0].ways <= SEARCHED_WAYS)


# Which passes a design takes.


def interleaves_host_and_nic(design: Design) -> bool:
    """Whether host and NIC alternate: what either does depends on what the other has just done.

    Then one pass goes from request to request.  So it is where the NIC fetches ahead, or a limit
    has the host unpin and misses have it pin, or it pins ahead under a limit.
    """
    if design.most_valid is not None or (design.prefetch or 1) > 1:
        return True
    if design.pin_limit is None:
        return False
    return design.scheme is Scheme.INTERRUPT or (design.prepin or 1) > 1


def is_single_set(design: Design) -> bool:
    """Whether the cache is one set, too wide to search, that holds what was looked up last."""
    lines = (design.entries or 0) // (design.line or 1)
    return not interleaves_host_and_nic(design) and SEARCHED_WAYS < (design.ways or 1) == lines


def entries_held(design: Design) -> int:
    """How many entries are kept by when they were used, or came: of one wide set, or victims."""
    if design.scheme is Scheme.UNET_MM and not interleaves_host_and_nic(design):
        return design.victim_entries or 0
    return (design.ways or 1) if is_single_set(design) else 0


_WITHOUT_CACHE = {
    Scheme.PINNED: replay_pinned,
    Scheme.STATIC: replay_static,
    Scheme.UTLB_PROCESS: replay_utlb_process,
}
_INTERLEAVED = {
    Scheme.INTERRUPT: replay_interrupt,
    Scheme.UNET_MM: replay_unet_mm,
    Scheme.UTLB: replay_utlb,
    Scheme.UTLB_SHARED: replay_utlb_shared,
}


def passes_of(design: Design) -> tuple[Any, ...]:
    """The kernels that replay a piece under ``design``, one pass after the other."""
    scheme = design.scheme
    if scheme in _WITHOUT_CACHE:
        return (_WITHOUT_CACHE[scheme],)
    if interleaves_host_and_nic(design):
        return _INTERLEAVED[scheme], note_lookups
    is_single, by_page = is_single_set(design), scheme is Scheme.UTLB
    if design.pin_limit is not None:  # a user library's own: entries leave the NIC
        look_up: Any = look_up_unpinning if by_page else look_up_unpinning_shared
        look_up = look_up_single_set_unpinning if is_single else look_up
        return admit_within_limit, look_up, note_lookups
    look_up = look_up_single_set if is_single else look_up_all
    if scheme is Scheme.INTERRUPT:
        return look_up, interrupt_missed, note_missed
    if scheme is Scheme.UNET_MM:
        asked = (look_up_victims,) if design.victim_entries else ()
        return look_up, *asked, interrupt_missed, note_missed
    if scheme is Scheme.HANDLE:
        return look_up, bring_missed, note_missed
    look_up = look_up_single_set if is_single else look_up_listing_misses
    if by_page:
        return look_up, fetch_missed, note_missed, admit_first
    return admit_new, find_indices, look_up, fetch_missed, note_missed
