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
PATH_COLOURS = {"send": BLUE, "receive": ORANGE}
MEMORY_COLOURS = {"NIC memory": BLUE, "pinned host memory": ORANGE}
# For the components of a cost, in the order in which they appear.
SERIES = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, YELLOW, GREY)
