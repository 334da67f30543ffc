"""Rays through a volume: light from what is opaque, from the front to the back."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHUNK = 16  # samples of each ray that are looked up at once
OPAQUE = 0.05  # light that comes through: a ray ends where there is less
CORNERS = tuple((z, y, x) for z in (0, 1) for y in (0, 1) for x in (0, 1))


class View(NamedTuple):
    """How the volume is looked at: in voxels, z, y, x; rays go ``along`` a way of length 1."""

    side: int  # of the volume, a cube
    slices: int  # of voxels in it, along z
    along: NDArray[np.float64]
    right: NDArray[np.float64]
    down: NDArray[np.float64]

    @property
    def reach(self) -> int:
        """Samples from the middle of a ray to either end."""
        return image_side(self.side) // 2

    def starts(self, columns: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The middle of the ray through each pixel."""
        middle = (image_side(self.side) - 1) / 2
        over, under = (columns - middle)[:, None], (rows - middle)[:, None]
        return (self.side - 1) / 2 + over * self.right + under * self.down


class Voxels(Protocol):
    """Where the volume is looked up; places are counted in voxels."""

    async def may_be_seen(self, samples: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether anything is opaque around samples: z, y, x of the voxels before them."""

    async def opacities(self, places: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Of some voxels, where all is opaque."""

    async def shades(self, places: NDArray[np.int64]) -> NDArray[np.uint8]:
        """How bright some voxels are."""


def image_side(side: int) -> int:
    """Pixels that show all of a volume from everywhere, as words of four."""
    return -(-int(side * 3**0.5) // 8) * 8


def view_from(side: int, slices: int, degrees: float) -> View:
    """The volume turned about its upright axis."""
    turn = np.deg2rad(degrees)
    sine, cosine = np.sin(turn), np.cos(turn)
    return View(
        side,
        slices,
        np.array([cosine, 0.0, sine]),
        np.array([-sine, 0.0, cosine]),
        np.array([0.0, 1.0, 0.0]),
    )


async def cast(voxels: Voxels, view: View, starts: NDArray[np.float64]) -> NDArray[np.uint8]:
    """How bright each ray comes back."""
    steps = np.arange(-view.reach, view.reach + 1)
    samples = starts[:, None, :] + steps[None, :, None] * view.along
    samples[..., 0] *= (view.slices - 1) / (view.side - 1)
    before = np.floor(samples).astype(np.int64)
    last = np.array([view.slices, view.side, view.side]) - 1
    is_left = np.all((before >= 0) & (before < last), axis=2)
    is_left[is_left] = await voxels.may_be_seen(before[is_left])
    bright, through = np.zeros(len(starts)), np.ones(len(starts))
    for first in range(0, len(steps), CHUNK):
        chunk = slice(first, first + CHUNK)
        asked = is_left[:, chunk] & (through >= OPAQUE)[:, None]
        if not asked.any():
            continue
        opacity, shade = np.zeros(asked.shape), np.zeros(asked.shape)
        part = samples[:, chunk][asked] - before[:, chunk][asked]
        values = await _interpolated(voxels, view.side, before[:, chunk][asked], part)
        opacity[asked], shade[asked] = values
        for step in range(min(CHUNK, len(steps) - first)):
            seen = np.where(through >= OPAQUE, opacity[:, step], 0.0)
            bright += through * seen * shade[:, step]
            through = through * (1 - seen)
    return np.minimum(bright, 255).astype(np.uint8)


async def _interpolated(
    voxels: Voxels, side: int, before: NDArray[np.int64], part: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How opaque and how bright it is ``part`` of the way from voxels to the next."""
    places = np.stack(
        [
            ((before[:, 0] + z) * side + before[:, 1] + y) * side + before[:, 2] + x
            for z, y, x in CORNERS
        ]
    )
    opaque = (await voxels.opacities(places.ravel())).reshape(places.shape) / 255
    weights = [
        (part[:, 0] if z else 1 - part[:, 0])
        * (part[:, 1] if y else 1 - part[:, 1])
        * (part[:, 2] if x else 1 - part[:, 2])
        for z, y, x in CORNERS
    ]
    opacity, shade = np.zeros(len(before)), np.zeros(len(before))
    for weight, each in zip(weights, opaque, strict=True):
        opacity += weight * each
    seen = opacity > 0
    bright = (await voxels.shades(places[:, seen].ravel())).reshape(len(CORNERS), -1)
    for weight, each in zip(weights, bright, strict=True):
        shade[seen] += weight[seen] * each
    return opacity, shade
