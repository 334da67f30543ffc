"""A static table's entries: one that was given back stands for another page, and only one."""

from clusters import FRAME_BASE
from hypothesis import given
from hypothesis import strategies as st

from nicscope.drivers.translation import new_translations, space_numbering
from nicscope.nic.translate.book import FILL, REJECTED, clear_pin_actions, unpin_page, write_frame
from nicscope.nic.translate.requests import key_of_page
from nicscope.nic.translate.state import translation_of
from nicscope.nic.translate.static import free_entry, serve_freed_entry, serve_static
from trace_columns import design_of

PAGES, ENTRIES = 12, 4


class Table:
    """One node's static table, of which pages take entries and give them back."""

    def __init__(self):
        design = design_of({"scheme": "static", "entries": ENTRIES, "page_size": 4096})
        numbering = space_numbering(design, 1, PAGES)
        self.translations = new_translations(design, [numbering], [1], 1, pages_per_space=PAGES)
        self.node = translation_of(self.translations, 0)
        self.nic, self.host, self.book = self.node

    def key(self, page):
        return key_of_page(self.host, self.book, 0, page)

    def take(self, page):
        """The entry of ``page``: one given back, else the next; none if the table is full."""
        key = self.key(page)
        clear_pin_actions(self.host)
        again = serve_freed_entry(*self.node, 0, page, key)
        if not again and serve_static(*self.node, 0, page, key) == REJECTED:
            return None
        for deed in self.host.pin_actions[: self.host.pin_action_count[0]]:
            if deed["what"] == FILL:
                write_frame(self.nic, deed["place"], FRAME_BASE + deed["key"])
        return int(self.host.table_entries[key])

    def give_back(self, page):
        clear_pin_actions(self.host)
        unpin_page(self.host, self.book, 0, self.key(page))
        free_entry(self.nic, self.host, self.key(page))


@given(st.lists(st.integers(0, PAGES - 1), max_size=40))
def test_entries_given_back_are_taken_the_last_first_and_before_new_ones(pages):
    table = Table()
    holds, given_back, used = {}, [], 0
    for page in pages:
        if page in holds:
            given_back.append(holds.pop(page))
            table.give_back(page)
            continue
        entry = table.take(page)
        if given_back:
            assert entry == given_back.pop()
        elif used < ENTRIES:
            assert entry == used
            used += 1
        else:
            assert entry is None
            continue
        holds[page] = entry
        frames = {page: int(table.nic.frames[entry]) for page, entry in holds.items()}
        assert frames == {page: FRAME_BASE + table.key(page) for page in holds}
