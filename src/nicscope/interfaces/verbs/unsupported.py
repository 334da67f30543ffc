"""Pyverbs modules of unsupported features: their names exist, creating an object is refused.

``MODULES`` has them; ``alias`` makes modules of it when a program imports one.
"""

from __future__ import annotations

import errno
from typing import Any

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.base import Fields, Number, PyverbsCM, PyverbsObject, error


class Unsupported(PyverbsCM):
    """An object of a kind that the device does not support; errors: EOPNOTSUPP."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise error(f"Failed to create {type(self).__name__}", errno.EOPNOTSUPP)


class Values(PyverbsObject):
    """Attributes of an unsupported object, by name."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.given = given
        self.__dict__.update(named)


class FlowAttr(Values):
    """The packets that a flow steering rule matches."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.specs: list[Any] = []
        super().__init__(*given, **named)


class Spec(Values):
    """Header fields that a flow steering rule matches."""


class DmaBuf(PyverbsCM):
    """A GPU buffer exported as dma-buf, of which a node has none; errors: EOPNOTSUPP."""

    def __init__(self, size: int, gpu: int = 0, gtt: int = 0) -> None:  # noqa: ARG002
        raise error(f"Failed to allocate dmabuf of size {int(size)}", errno.EOPNOTSUPP)


class DmaHandleInitAttr(Fields, PyverbsObject):
    """Attributes of a TLP processing hint."""

    SHOWN = ("comp_mask", "cpu_id", "ph", "tph_mem_type")
    comp_mask, cpu_id, ph, tph_mem_type = Number(), Number(), Number(), Number()

    def __init__(
        self, comp_mask: int = 0, cpu_id: int = 0, ph: int = 0, tph_mem_type: int = 0
    ) -> None:
        self.comp_mask, self.cpu_id = comp_mask, cpu_id
        self.ph, self.tph_mem_type = ph, tph_mem_type


class DMAHandle(PyverbsCM):
    """A handle of a TLP processing hint; errors: EOPNOTSUPP."""

    def __init__(self, ctx: Any, init_attr: DmaHandleInitAttr) -> None:  # noqa: ARG002
        raise error("Failed to allocate DMA handle", errno.EOPNOTSUPP)


def _classes(base: type, *names: str) -> dict[str, Any]:
    return {name: type(name, (base,), {"__doc__": base.__doc__}) for name in names}


MODULES: dict[str, dict[str, Any]] = {
    "comp_cntr": {
        **_classes(Unsupported, "CompCntr"),
        **_classes(Values, "CompCntrInitAttr", "CompCntrAttachAttr"),
    },
    "dmabuf": {"DmaBuf": DmaBuf},
    "flow": {"FlowAttr": FlowAttr, **_classes(Unsupported, "Flow")},
    # Simulated memory is copied with the rest of a process that forks: nothing is to be prepared.
    "fork": {
        "fork_init": lambda: None,
        "is_fork_initialized": lambda: e.ibv_fork_status.IBV_FORK_UNNEEDED,
    },
    "spec": {
        "Spec": Spec,
        **_classes(Spec, "EthSpec", "Ipv4ExtSpec", "Ipv6Spec", "TcpUdpSpec"),
    },
    "tph": {"DMAHandle": DMAHandle, "DmaHandleInitAttr": DmaHandleInitAttr},
    "wq": {
        **_classes(Unsupported, "WQ", "RwqIndTable"),
        **_classes(Values, "WQInitAttr", "WQAttr", "RwqIndTableInitAttr", "RxHashConf"),
    },
}
