"""What the translations of a node take is what was said before they were made."""

import numpy as np
import pytest

from nicscope.config.design import Scheme
from nicscope.drivers.translation import (
    COPIES,
    new_translations,
    space_numbering,
    translation_bytes,
)
from nicscope.interfaces.ways import IN_TIME
from trace_columns import design_of


def taken(part):
    """Bytes of every array of ``part``."""
    if isinstance(part, tuple):
        return sum(map(taken, part))
    return part.nbytes if isinstance(part, np.ndarray) else 0


@pytest.mark.parametrize("processes", [1, 5])
@pytest.mark.parametrize(("entries", "pages"), [(4096, 64), (64, 4096)])
@pytest.mark.parametrize("scheme", [each.value for each in IN_TIME if each is not Scheme.PINNED])
def test_the_room_for_translations_is_named_beforehand(scheme, entries, pages, processes):
    design = design_of({"scheme": scheme, "entries": entries, "line": 1, "page_size": 4096})
    numbering = space_numbering(design, processes, pages)
    made = new_translations(design, [numbering], [processes], 6, pages_per_space=pages)
    need = translation_bytes(design, processes, processes * pages, 6)

    assert taken(made) <= need


@pytest.mark.parametrize("processes", [1, 2, 5])
def test_a_table_for_each_process_takes_what_is_named_for_it(processes):
    needs, tables = [], []
    for entries in (64, 128):
        design = design_of({"scheme": "utlb-process", "entries": entries, "page_size": 4096})
        numbering = space_numbering(design, processes, 8)
        made = new_translations(design, [numbering], [processes], 6, pages_per_space=8)
        tables.append(made.nic.frames.nbytes)
        needs.append(translation_bytes(design, processes, processes * 8, 6))

    assert needs[1] - needs[0] == COPIES * (tables[1] - tables[0]) > 0
