"""What programs of several nodes tell each other beside the network: values by name."""

from __future__ import annotations

import pickle
from typing import Any

from nicscope.interfaces.verbs.world import here


def exchange(name: str, value: Any) -> list[Any]:
    """Give a value to all nodes; what each has given under that name, in order of the nodes.

    It waits, in no virtual time, until every node has given one, as often as one likes: a node's
    second value is exchanged for the others' second.  What is given is copied.
    """
    own = here()
    mine = pickle.dumps(value)
    own.offered.setdefault(name, []).append(mine)
    turn = own.taken.get(name, 0)
    own.taken[name] = turn + 1

    def is_whole() -> bool:
        return all(len(each.offered.get(name, ())) > turn for each in own.neighbours)

    own.wait(f"the other nodes to exchange {name!r}", is_whole)
    # Programs of this very run have given these.
    return [pickle.loads(each.offered[name][turn]) for each in own.neighbours]
