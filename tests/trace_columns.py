"""A drawn trace and a drawn design as the drivers take them."""

import numpy as np

from nicscope.config.design import PARTS, SCHEMES, Design, Scheme, with_settings
from nicscope.drivers.replay.columns import OnlyRequests as Columns
from oracle import replay as oracle

UNLIMITED = ("pin_limit", "high_water", "most_valid")  # what None says of


def columns_of(rows):
    _, node, pid, op, address, length = zip(*rows, strict=True)
    return Columns(
        np.array(node, np.int32),
        np.array(pid, np.int32),
        np.array([oracle.PATHS[name] == "receive" for name in op], np.uint8),
        np.array(address, np.uint64),
        np.array(length, np.uint32),
    )


def design_of(flat):
    scheme = Scheme(flat["scheme"])
    plain = Design(name="drawn", title="drawn", scheme=scheme)
    known = [
        f"{key}={'none' if value is None else value}"
        for key, value in flat.items()
        if key in SCHEMES[scheme].uses and not (value is None and key not in UNLIMITED)
    ]
    known += [f"{key}={flat[key]}" for key in PARTS if key in flat]
    return with_settings(plain, known)
