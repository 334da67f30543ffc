"""One row of a state whose arrays all have as many."""

from __future__ import annotations

from typing import Any

import numpy as np

from nicscope.kernel.decorators import coded


@coded("nicscope.kernel.compiler.states:row_of")
def row_of(state: Any, row: int) -> Any:
    """Row ``row`` of every array of ``state``, as a state of the same kind."""
    rows = [field[row] if isinstance(field, np.ndarray) else row_of(field, row) for field in state]
    return tuple.__new__(type(state), rows)
