"""What rules of steering look at."""

from __future__ import annotations

from nicscope.interfaces.verbs.unbuilt import Values


class Spec(Values):
    """A header's fields."""


class EthSpec(Spec):
    """Of an Ethernet header."""


class Ipv4ExtSpec(Spec):
    """Of an IPv4 header."""


class Ipv6Spec(Spec):
    """Of an IPv6 header."""


class TcpUdpSpec(Spec):
    """Of a TCP or UDP header."""
