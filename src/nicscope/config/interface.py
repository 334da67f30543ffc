"""The interfaces that programs call, by the words that a design file and ``Cluster`` take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import did_you_mean

if TYPE_CHECKING:
    from nicscope.errors import NicscopeError

# The word, and the interface's name as its papers and every report have it.
INTERFACE_NAMES = {
    "unet": "U-Net",
    "vmmc": "VMMC",
    "mini": "miNI",
    "via": "VIA",
    "trapeze": "Trapeze",
}


def read_interface(given: object, where: str, error: type[NicscopeError]) -> str:
    """The word of the interface that ``given`` names: by its word, or by its name.

    Errors: ``error``, beginning with ``where``, with the nearest word.
    """
    if isinstance(given, str):
        for word, name in INTERFACE_NAMES.items():
            if given.lower() in (word, name.lower()):
                return word
    raise error(f"{where}: no interface {given!r}{did_you_mean(str(given), INTERFACE_NAMES)}")
