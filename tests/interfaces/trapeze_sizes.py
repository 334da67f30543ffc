"""The machine and the small rings that programs on Trapeze endpoints are tried on."""

import msgspec

from nicscope.config.design import POLICIES

PLATFORM = "p6-natoma"
SMALL = msgspec.structs.replace(POLICIES["adaptive"], max_payload=600, send_ring=3, receive_ring=3)
