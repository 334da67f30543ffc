"""Colours that every kind of colour vision tells apart (Okabe and Ito), by what they stand for."""

from __future__ import annotations

ORANGE = "#E69F00"
SKY = "#56B4E9"
GREEN = "#009E73"
YELLOW = "#F0E442"
BLUE = "#0072B2"
VERMILION = "#D55E00"
PURPLE = "#CC79A7"
GREY = "#999999"

KIND_COLOURS = {
    "compulsory": SKY,
    "invalidated": PURPLE,
    "capacity": BLUE,
    "conflict": ORANGE,
    "not compulsory": ORANGE,
}
# Colour alone does not tell them apart in a log file, so each has a texture too.
KIND_TEXTURES = {
    "compulsory": "░",
    "invalidated": "▚",
    "capacity": "▓",
    "conflict": "█",
    "not compulsory": "█",
}
PATH_COLOURS = {"send": GREEN, "receive": VERMILION}
MEMORY_COLOURS = {"NIC memory": BLUE, "pinned host memory": ORANGE}
# Steps of every scheme's cost, gathered into as many groups as there are colours.
STEP_GROUPS = {
    "copying": ("copy_start", "copy"),
    "check in the user library": ("user_check",),
    "lookup on the NIC": ("ni_check", "further_ways", "ni_hit_send", "ni_hit_receive"),
    "miss on the NIC": ("ni_miss", "ni_handshake", "icm_fetch"),
    "interrupt": ("interrupt", "miss_processing"),
    "pinning": ("user_pin", "kernel_pin", "kernel_pin_receive", "registration"),
    "unpinning": ("user_unpin", "kernel_unpin"),
    "sending again": ("retransmission",),
}
GROUP_COLOURS = dict(
    zip(STEP_GROUPS, (YELLOW, SKY, BLUE, PURPLE, VERMILION, ORANGE, GREEN, GREY), strict=True)
)
# The bands of a packet flow graph: dark and light take turns from packet to packet.
BAND_SHADES = {
    "hostTx": (BLUE, "#8FC7EA"),
    "netTx": (GREEN, "#8AD6BE"),
    "netRcv": (PURPLE, "#EBC8DC"),
    "hostRcv": (VERMILION, "#F2B48A"),
}
# Activities by the end of the wire that they are at; waits are grey (and thin, in text).
PART_COLOURS = {
    "HOST_WRITE": SKY,
    "SEND_RING": GREY,
    "FIRMWARE_SEND": ORANGE,
    "HOST_TX": BLUE,
    "SENDER_NIC": GREY,
    "NETWORK": GREEN,
    "FIRMWARE_RECEIVE": ORANGE,
    "HOST_RCV": VERMILION,
    "RECEIVER_NIC": GREY,
    "RECEIVE_RING": GREY,
    "HOST_READ": SKY,
}
# Schemes, by curve and marker alike.
FAMILY_LOOKS = {
    "pinned": (GREY, "P"),
    "static": ("#222222", "X"),
    "interrupt": (VERMILION, "o"),
    "unet-mm": (ORANGE, "s"),
    "utlb": (BLUE, "D"),
    "utlb-shared": (SKY, "v"),
    "utlb-process": (GREEN, "^"),
    "handle": (PURPLE, "<"),
    "rnic": ("#8C510A", ">"),
}
