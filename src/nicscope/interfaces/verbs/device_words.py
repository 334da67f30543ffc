"""Words for what a device and its ports say of themselves."""

from __future__ import annotations

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.texts import be64toh, of_enum

INVALID = "Invalid"
PHYSICAL = {
    0: "No state change",
    1: "Sleep",
    2: "Polling",
    3: "Disabled",
    4: "PortConfigurationTraining",
    5: "LinkUp",
    6: "LinkErrorRecovery",
    7: "PhyTest",
}
WIDTHS = {1: "1X", 2: "4X", 4: "8X", 8: "12X", 16: "2X"}
SPEEDS = {  # Gbit/s of a lane
    0: "0.0 Gbps",
    1: "2.5 Gbps",
    2: "5.0 Gbps",
    4: "5.0 Gbps",
    8: "10.0 Gbps",
    16: "14.0 Gbps",
    32: "25.0 Gbps",
    64: "50.0 Gbps",
    128: "100.0 Gbps",
    256: "200.0 Gbps",
}
STATES = {1: "Down", 2: "Init", 3: "Armed", 4: "Active", 5: "Active defer", 0: "NOP"}
LAYERS = {0: "Unspecified", 1: "InfiniBand", 2: "Ethernet"}


def phys_state_to_str(state: int) -> str:
    """What a port's physical layer does."""
    return f"{PHYSICAL.get(state, 'Invalid physical state')} ({state})"


def port_state_to_str(state: int) -> str:
    """What a port does."""
    return f"{STATES.get(state, 'Invalid state')} ({state})"


def translate_mtu(mtu: int) -> str:
    """Bytes of a code of MTUs."""
    found = of_enum(e.ibv_mtu, mtu, "IBV_MTU_", "Invalid MTU")
    return f"{found} ({mtu})"


def width_to_str(width: int) -> str:
    """Lanes of a link."""
    return f"{WIDTHS.get(width, 'Invalid width')} ({width})"


def speed_to_str(speed: int, speed_ex: int = 0) -> str:
    """Speed of a lane; the extended field goes first where it is set."""
    found = speed_ex or speed
    return f"{SPEEDS.get(found, 'Invalid speed')} ({found})"


def translate_link_layer(layer: int) -> str:
    """What a port's link is."""
    return LAYERS.get(layer, f"Invalid link layer ({layer})")


def translate_node_type(node_type: int) -> str:
    """What a device is."""
    return of_enum(e.ibv_node_type, node_type, "IBV_NODE_", "Unknown")


def translate_transport_type(transport_type: int) -> str:
    """What a device speaks."""
    return of_enum(e.ibv_transport_type, transport_type, "IBV_TRANSPORT_", "Unknown")


def translate_event_type(event_type: int) -> str:
    """The name of an asynchronous event."""
    return of_enum(e.ibv_event_type, event_type, "", f"Unknown event type ({event_type})")


def guid_format(num: int) -> str:
    """A GUID in network order as four groups."""
    digits = f"{be64toh(num):016x}"
    return ":".join(digits[at : at + 4] for at in range(0, 16, 4))


def guid_to_hex(node_guid: int) -> str:
    """A GUID in the host's order as digits."""
    return hex(node_guid)


def _flags(value: int, kind: str, prefix: str) -> str:
    members = getattr(e, kind)
    told = [one.name.removeprefix(prefix) for one in members if value & int(one)]
    return f"{value} ({' '.join(told)})" if told else str(value)


def translate_device_cap_flags(flags: int) -> str:
    """The names of what a device can do."""
    return _flags(flags, "ibv_device_cap_flags", "IBV_DEVICE_")


def translate_port_cap_flags(flags: int) -> str:
    """The names of what a port can do."""
    return _flags(flags, "ibv_port_cap_flags", "IBV_PORT_")


def translate_port_cap_flags2(flags: int) -> str:
    """The names of what else a port can do."""
    return _flags(flags, "ibv_port_cap_flags2", "IBV_PORT_")
