"""Where the draws of random replacement begin: at the design's seed and the node's number."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nicscope.drivers.translation import new_translations, space_numbering
from trace_columns import design_of

FLAT = {"scheme": "utlb", "entries": 4, "pin_limit": 2, "replacement": "random", "page_size": 4096}


def begins(seed, nodes):
    design = design_of(FLAT if seed is None else {**FLAT, "seed": seed})
    numberings = [space_numbering(design, 1, 4)] * len(nodes)
    made = new_translations(
        design, numberings, [1] * len(nodes), 1, pages_per_space=4, node_numbers=nodes
    )
    return np.ravel(made.host.pinning.rules["random"]).tolist()


def test_without_a_seed_it_is_0():
    assert begins(None, [0, 3]) == begins(0, [0, 3])


@given(st.integers(0, 2**61), st.integers(0, 2**20))
def test_a_node_draws_with_the_seed_plus_its_number(seed, number):
    assert begins(seed, [number]) == begins(seed + number, [0])
    assert begins(seed, [0, 1])[0] != begins(seed, [0, 1])[1]
