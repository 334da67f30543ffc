"""The enumerations of the verbs and the connection manager, of a table, and their members' names.

Programs import this module as ``utils``.
"""

from __future__ import annotations

import socket
import struct
import tomllib
from enum import IntEnum
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@cache
def _tables() -> dict[str, dict[str, dict[str, int | str]]]:
    return tomllib.loads(Path(__file__).with_name("values.toml").read_text())


@cache
def names_of(module: str) -> dict[str, Any]:
    """Every enumeration of a module, all of their members, and names that are in none.

    Members stand beside their enumerations too, as programs written before there were
    enumerations know them.
    """
    names: dict[str, Any] = {}
    for title, values in _tables()[module].items():
        members = {name: int(str(value), 0) for name, value in values.items()}
        if title == "module_level":
            names |= members
        else:
            made: Any = IntEnum(title, members)  # type: ignore[misc]  # of a table
            names[title] = made
            names |= made.__members__
    return names


def module_of(name: str, content: dict[str, Any]) -> ModuleType:
    """A module of pyverbs with ``content``."""
    made = ModuleType(f"{__package__}.{name}")
    made.__spec__ = ModuleSpec(made.__name__, None)
    made.__dict__.update(content)
    return made


libibverbs_enums: Any = module_of("libibverbs_enums", names_of("libibverbs_enums"))
librdmacm_enums: Any = module_of("librdmacm_enums", names_of("librdmacm_enums"))
e = libibverbs_enums

ACCESS = {
    "IBV_ACCESS_LOCAL_WRITE": "LOCAL WRITE",
    "IBV_ACCESS_REMOTE_WRITE": "REMOTE WRITE",
    "IBV_ACCESS_REMOTE_READ": "REMOTE READ",
    "IBV_ACCESS_REMOTE_ATOMIC": "REMOTE ATOMIC",
    "IBV_ACCESS_MW_BIND": "MW BIND",
    "IBV_ACCESS_ZERO_BASED": "ZERO BASED",
    "IBV_ACCESS_ON_DEMAND": "ON DEMAND",
    "IBV_ACCESS_HUGETLB": "HUGETLB",
    "IBV_ACCESS_FLUSH_GLOBAL": "FLUSH GLOBAL",
    "IBV_ACCESS_FLUSH_PERSISTENT": "FLUSH PERSISTENT",
    "IBV_ACCESS_RELAXED_ORDERING": "RELAXED ORDERING",
}


def naming(
    meaning: str, names: Any, unknown: str, prefix: str = "", form: str = "{0}"
) -> Callable[[int], str]:
    """A function from a number to its name in ``names``, an enumeration or a table; or ``unknown``.

    Of an enumeration's names ``prefix`` is left out.  ``form`` and ``unknown`` are formats of the
    name and the number.
    """
    table = names
    if not isinstance(names, dict):
        table = {int(each): each.name.removeprefix(prefix) for each in names}

    def name_of(value: int) -> str:
        return form.format(table.get(value, unknown.format(value)), value)

    name_of.__doc__ = meaning
    return name_of


qp_type_to_str = naming("The name of a transport.", e.ibv_qp_type, "UNKNOWN", "IBV_QPT_")
qp_state_to_str = naming("The name of a queue pair's state.", e.ibv_qp_state, "UNKNOWN", "IBV_QPS_")
mtu_to_str = naming("The bytes of an MTU code.", e.ibv_mtu, "UNKNOWN", "IBV_MTU_")
mig_state_to_str = naming(
    "The name of a path migration state.", e.ibv_mig_state, "UNKNOWN", "IBV_MIG_"
)
rereg_error_to_str = naming(
    "The name of a reregistration error.", e.ibv_rereg_mr_err_code, "Unknown error"
)


def access_flags_to_str(flags: int) -> str:
    """The names of access flags."""
    told = " ".join(text for name, text in ACCESS.items() if int(flags) & getattr(e, name))
    return told or "LOCAL READ"


def byte_swapped64(value: int) -> int:
    """A 64-bit word with its bytes swapped."""
    return int(struct.unpack("<Q", struct.pack(">Q", int(value) & (1 << 64) - 1))[0])


def be64toh(value: int) -> int:
    """A 64-bit word converted from network to host order."""
    return byte_swapped64(value) if socket.htons(1) != 1 else int(value)


def gid_str(prefix: int, interface_id: int) -> str:
    """The text of a GID given as two 64-bit words in network order."""
    raw = be64toh(prefix).to_bytes(8, "big") + be64toh(interface_id).to_bytes(8, "big")
    return ":".join(raw[at : at + 2].hex() for at in range(0, 16, 2))


def gid_str_to_array(val: str) -> bytes:
    """The bytes of a GID's text; errors: ValueError."""
    groups = val.split(":")
    if len(groups) != 8 or any(len(group) != 4 for group in groups):
        raise ValueError(f"{val} is no GID of eight groups of four digits")
    return bytes.fromhex("".join(groups))
