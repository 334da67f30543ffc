"""Amazon's objects: no queue is one of them."""

from __future__ import annotations

from nicscope.interfaces.verbs.unbuilt import Foreign


class EfaCQ(Foreign):
    """A completion queue of Amazon's devices."""


class EfaContext(Foreign):
    """A context of Amazon's devices."""


class SRDQP(Foreign):
    """A pair of reliable datagrams."""


class SRDQPEx(Foreign):
    """A pair of reliable datagrams, told step by step."""
