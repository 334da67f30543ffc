"""Two ends of a conversation that has not begun."""

from nicscope.kernel.records import records
from nicscope.nic.transport import TRANSPORT


def new_links(nodes, first=0):
    """TRANSPORT, shape (nodes, nodes), by (node, peer): all alive, numbers begin at ``first``."""
    links = records((nodes, nodes), TRANSPORT)
    for field in ("oldest", "turn", "fresh", "numbered", "confirmed", "wanted"):
        links[field] = first
    return links
