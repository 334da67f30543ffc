"""Addresses: GIDs, routes and handles of them."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs.base import (
    Attributes,
    PyverbsCM,
    PyverbsObject,
    PyverbsUserError,
    error,
    refusal,
)
from nicscope.interfaces.verbs.enumerations import gid_str_to_array

if TYPE_CHECKING:
    from nicscope.interfaces.verbs_device.calls import Completion

GRH_BYTES = 40
V4 = bytes(10) + b"\xff\xff"
PORT = 1


def gid_text(raw: bytes) -> str:
    """An address of 16 bytes as eight groups."""
    return ":".join(raw[at : at + 2].hex() for at in range(0, 16, 2))


class GID(PyverbsObject):
    """An address of a port."""

    def __init__(self, val: str | None = None) -> None:
        self.raw = bytes(16)
        if val is not None:
            self.gid = val

    @property
    def gid(self) -> str:
        """Its text."""
        return gid_text(self.raw)

    @gid.setter
    def gid(self, val: str) -> None:
        try:
            self.raw = gid_str_to_array(val)
        except ValueError as wrong:
            raise PyverbsUserError(f"Invalid GID value ({val})") from wrong

    def __str__(self) -> str:
        return self.gid


def gid_of(raw: bytes) -> GID:
    """A GID of 16 bytes."""
    made = GID()
    made.raw = raw
    return made


class GRH(Attributes):
    """A global routing header."""

    SHOWN = ("version_tclass_flow", "paylen", "next_hdr", "hop_limit", "sgid", "dgid")
    sgid: GID | None = None
    dgid: GID | None = None
    version_tclass_flow: int = 0
    paylen: int = 0
    next_hdr: int = 0
    hop_limit: int = 1

    def __post_init__(self) -> None:
        self.sgid, self.dgid = self.sgid or GID(), self.dgid or GID()


class GlobalRoute(Attributes):
    """The global routing header (GRH) fields of an address: GID, hop limit, traffic class."""

    SHOWN = ("dgid", "flow_label", "sgid_index", "hop_limit", "traffic_class")
    dgid: GID = None  # type: ignore[assignment]  # a copy; of zeros unless given
    flow_label: int = 0
    sgid_index: int = 0
    hop_limit: int = 1
    traffic_class: int = 0

    def __post_init__(self) -> None:
        self.dgid = gid_of(bytes(16) if self.dgid is None else self.dgid.raw)


class OfMember:
    """A field of a member of the object; None if the object has a ``guard`` and that is 0."""

    def __init__(self, member: str, guard: str | None = None) -> None:
        self._member, self._guard = member, guard

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, holder: Any, kind: type | None = None) -> Any:
        if holder is None:
            return self
        if self._guard is not None and not getattr(holder, self._guard):
            return None
        return getattr(getattr(holder, self._member), self._name)

    def __set__(self, holder: Any, value: Any) -> None:
        setattr(getattr(holder, self._member), self._name, value)


class AHAttr(Attributes):
    """Attributes of an address handle: the destination's GID, port and route."""

    SHOWN = ("port_num", "sl", "src_path_bits", "dlid", "static_rate", "is_global")
    GLOBAL = ("dgid", "sgid_index", "flow_label", "hop_limit", "traffic_class")
    dlid: int
    sl: int
    src_path_bits: int
    static_rate: int
    is_global: int
    port_num: int
    # Of its route; None unless global.
    sgid_index, flow_label = OfMember("_route", "is_global"), OfMember("_route", "is_global")
    hop_limit, traffic_class = OfMember("_route", "is_global"), OfMember("_route", "is_global")

    def __init__(
        self,
        dlid: int = 0,
        sl: int = 0,
        src_path_bits: int = 0,
        static_rate: int = 0,
        is_global: int = 0,
        port_num: int = PORT,
        gr: GlobalRoute | None = None,
    ) -> None:
        if is_global and gr is None:
            raise PyverbsUserError("Global AH Attr is created but gr parameter is None")
        self.dlid, self.sl, self.src_path_bits = dlid, sl, src_path_bits
        self.static_rate, self.is_global, self.port_num = static_rate, is_global, port_num
        self._route = GlobalRoute()
        if gr is not None and is_global:
            self.gr = gr

    @property
    def gr(self) -> GlobalRoute:
        """Its route."""
        return self._route

    @gr.setter
    def gr(self, val: GlobalRoute) -> None:
        self._route = GlobalRoute(
            val.dgid, val.flow_label, val.sgid_index, val.hop_limit, val.traffic_class
        )

    def copied(self) -> AHAttr:
        """A copy of the attributes."""
        made = AHAttr(self.dlid, self.sl, self.src_path_bits, self.static_rate, 0, self.port_num)
        made.gr, made.is_global = self._route, self.is_global
        return made

    @property
    def dgid(self) -> Any:
        """The destination GID; None unless global."""
        return self._route.dgid.gid if self.is_global else None

    @dgid.setter
    def dgid(self, val: GID) -> None:
        self._route.dgid = gid_of(val.raw)

    def shown(self) -> list[tuple[str, Any]]:
        """Names and values, as they are printed."""
        rows = super().shown()
        if self.is_global:
            rows += [(name.replace("_", " "), getattr(self, name)) for name in self.GLOBAL]
        return rows


def route_errno(context: Any, attr: AHAttr) -> int:
    """The errno for an invalid address, or 0: on Ethernet every address has a GRH."""
    if attr.port_num != PORT or not attr.is_global:
        return errno.EINVAL
    if not any(context.world.gid(attr.gr.sgid_index)) or not any(attr.gr.dgid.raw):
        return errno.EINVAL
    return 0


class AH(PyverbsCM):
    """An address handle, the destination of datagrams."""

    def __init__(
        self,
        pd: Any,
        attr: AHAttr | None = None,
        wc: Completion | None = None,
        grh: Any = None,
        port_num: int = PORT,
    ) -> None:
        if attr is None:
            if wc is None or grh is None:
                raise PyverbsUserError("AH needs either an AHAttr, or a WC with its GRH")
            attr = _answer_to(pd, int(grh), int(port_num))
        if wrong := route_errno(pd.ctx, attr):
            raise error("Failed to create AH", wrong)
        self.pd = pd
        self.dgid, self.sgid_index = attr.gr.dgid.raw, attr.gr.sgid_index
        self._opened()
        pd._add_dependent(self, "ahs")


def _answer_to(pd: Any, address: int, port: int) -> AHAttr:
    """The attributes of an address that leads back to a datagram's sender, from its GRH."""
    with refusal("Failed to create AH"):
        header: bytes = pd.ctx.world.device.read(address, GRH_BYTES)
    if header[0] >> 4 == 6:
        source, target = header[8:24], header[24:40]
    else:
        source, target = V4 + header[32:36], V4 + header[36:40]
    mine = [gid.slot for gid in pd.ctx.world.gids() if gid.raw == target]
    if not mine:
        raise error("Failed to create AH", errno.EINVAL)
    return AHAttr(is_global=1, port_num=port, gr=GlobalRoute(gid_of(source), 0, mine[0]))
