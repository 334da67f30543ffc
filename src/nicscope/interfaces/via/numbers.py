"""Numbers that VIA's programs give, checked as every interface's, with the specification's code."""

from __future__ import annotations

from nicscope.errors import SimulationError
from nicscope.interfaces import arguments
from nicscope.interfaces.via.names import Return, VipError


def whole(value: object, what: str, least: int = 0, most: int = arguments.MOST) -> int:
    """``arguments.whole``.  Errors: ``VIP_INVALID_PARAMETER``."""
    try:
        return arguments.whole(value, what, least, most)
    except SimulationError as error:
        raise VipError(Return.VIP_INVALID_PARAMETER, str(error)) from None


def in_ps(microseconds: object, now: int = 0, what: str = "a time") -> int:
    """``arguments.in_ps``.  Errors: ``VIP_INVALID_PARAMETER``."""
    try:
        return arguments.in_ps(microseconds, now, what)
    except SimulationError as error:
        raise VipError(Return.VIP_INVALID_PARAMETER, str(error)) from None


def raw_bytes(content: object) -> bytes:
    """``arguments.raw_bytes``.  Errors: ``VIP_INVALID_PARAMETER``."""
    try:
        return arguments.raw_bytes(content)
    except SimulationError as error:
        raise VipError(Return.VIP_INVALID_PARAMETER, str(error)) from None


def a_name(value: object, what: str = "a discriminator") -> str:
    """``arguments.a_name``.  Errors: ``VIP_INVALID_PARAMETER``."""
    try:
        return arguments.a_name(value, what)
    except SimulationError as error:
        raise VipError(Return.VIP_INVALID_PARAMETER, str(error)) from None
