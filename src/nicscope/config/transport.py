"""How packets between two NICs are brought again that did not arrive, and the kinds of it."""

from __future__ import annotations

import msgspec


class Transport(msgspec.Struct, frozen=True, kw_only=True):
    """Whether and how packets are brought again that did not arrive."""

    reliable: bool = True
    window: int = 32  # packets on the way between two nodes
    time_out_ps: int = 1_000_000_000
    most_retries: int = 12
    ack_delay_ps: int = 20_000_000
    # Numbered, acknowledged and retransmitted by: two nodes together, or each connection by itself.
    by_connection: bool = False


# A design's word: what of a transport it says.
TRANSPORTS: dict[str, dict[str, bool]] = {
    "reliable": {"reliable": True},
    "unreliable": {"reliable": False},
    "reliable-connections": {"reliable": True, "by_connection": True},
}


def chosen_transport(word: str | None, own: Transport) -> Transport:
    """``own``, an interface's, as a design's ``transport`` has it; None leaves it as it is."""
    return own if word is None else msgspec.structs.replace(own, **TRANSPORTS[word])
