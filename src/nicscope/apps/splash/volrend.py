"""Volrend: images of a volume from several angles, by ray casting that skips empty space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from nicscope.apps.splash.program import SharedProgram, TaskQueues, at_once, check_result, shares
from nicscope.apps.svm.memory import WORD, Layout, SharedArray
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike, NDArray

    from nicscope.apps.svm.process import Process, Run


# Ellipsoids one in another: half axes beside half the volume's side, and density within.
SHELLS = (
    ((0.70, 0.90, 0.82), 80.0),  # skin
    ((0.62, 0.82, 0.74), 210.0),  # skull
    ((0.55, 0.74, 0.67), 110.0),  # brain
    ((0.12, 0.20, 0.16), 30.0),  # ventricle
)
WAVES = 6  # of random direction, that fold the shells
NOISE = 3  # of a voxel's density, either way
OPAQUE_FROM, OPAQUE_AT = 50.0, 200.0  # densities
STEEPEST = 30.0  # change of density from voxel to voxel that is a whole surface
NORMAL_BITS = 5  # of each axis
NORMALS = 1 << 3 * NORMAL_BITS


class Volume(NamedTuple):
    """Of ``slices`` of ``side`` by ``side`` voxels: z above y above x.

    All is bytes, but ``normals``, which are two each.
    """

    side: int
    slices: int
    opacities: NDArray[np.uint8]
    normals: NDArray[np.uint16]
    # For blocks of 2, 4, 8, ... voxels a side: the largest opacity of what lies between voxels
    # from a block's first to the next one's; one after another, from ``levels`` on.
    pyramid: NDArray[np.uint8]
    levels: tuple[int, ...]


def make_volume(side: int, slices: int, seed: int) -> Volume:
    """The volume for a seed; ``side`` and ``slices``, which fill a cube, are powers of two."""
    rng = np.random.default_rng(seed)
    densities = _densities(side, slices, rng)
    slopes = np.gradient(densities, side / slices, 1.0, 1.0)
    steepness = np.sqrt(sum(slope * slope for slope in slopes))
    opaque = np.clip((densities - OPAQUE_FROM) / (OPAQUE_AT - OPAQUE_FROM), 0, 1)
    opaque *= np.clip((steepness - NOISE) / STEEPEST, 0, 1)
    opacities = (255 * opaque).astype(np.uint8)
    normals = np.zeros(opacities.shape, np.uint16)
    highest = (1 << NORMAL_BITS) - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        for slope in slopes:
            part = np.rint((1 - slope / steepness) / 2 * highest)
            normals = normals << NORMAL_BITS | np.nan_to_num(part).astype(np.uint16)
    pyramid, levels = _pyramid(opacities)
    return Volume(side, slices, opacities, normals, pyramid, levels)


def normal_vectors() -> NDArray[np.float64]:
    """The direction of each number of a normal: x, y, z."""
    highest = (1 << NORMAL_BITS) - 1
    parts = np.arange(NORMALS)[:, None] >> np.array([0, NORMAL_BITS, 2 * NORMAL_BITS]) & highest
    vectors = 2 * parts / highest - 1
    directions: NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=1)[:, None]
    return directions


def _densities(side: int, slices: int, rng: np.random.Generator) -> NDArray[np.float32]:
    along = np.linspace(-1, 1, side, dtype=np.float32)
    z = np.linspace(-1, 1, slices, dtype=np.float32)[:, None, None]
    y, x = along[None, :, None], along[None, None, :]
    folds = np.zeros((slices, side, side), np.float32)
    for _ in range(WAVES):
        a, b, c, phase = (rng.uniform(-12, 12, 4)).astype(np.float32)
        folds += np.float32(0.03) * np.sin(a * z + b * y + c * x + phase)
    densities = np.zeros_like(folds)
    for (one, two, three), density in SHELLS:
        radius = np.sqrt((x / one) ** 2 + (y / two) ** 2 + (z / three) ** 2)
        densities[radius + folds < 1] = density
    densities += rng.integers(-NOISE, NOISE + 1, densities.shape, np.int8)
    return densities


def _pyramid(opacities: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], tuple[int, ...]]:
    largest = opacities
    for axis in range(3):
        following = np.delete(largest, 0, axis)
        last = np.take(largest, [-1], axis)
        largest = np.maximum(largest, np.concatenate([following, last], axis))
    parts, levels, used = [], [], 0
    while min(largest.shape) > 1:
        z, y, x = (many // 2 for many in largest.shape)
        largest = largest.reshape(z, 2, y, 2, x, 2).max(axis=(1, 3, 5))
        parts.append(largest.ravel())
        levels.append(used)
        used += largest.size
    return np.concatenate(parts), tuple(levels)


CHUNK = 16  # samples of each ray that are looked up at once
OPAQUE = 0.05  # light that comes through: a ray ends where there is less
CORNERS = tuple((z, y, x) for z in (0, 1) for y in (0, 1) for x in (0, 1))


class View(NamedTuple):
    """The viewing geometry in voxels (z, y, x); rays follow the unit vector ``along``."""

    side: int  # of the volume, a cube
    slices: int  # of voxels in it, along z
    along: NDArray[np.float64]
    right: NDArray[np.float64]
    down: NDArray[np.float64]

    @property
    def reach(self) -> int:
        """Samples from a ray's middle to either end."""
        return image_side(self.side) // 2

    def starts(self, columns: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The middle of the ray through each pixel."""
        middle = (image_side(self.side) - 1) / 2
        over, under = (columns - middle)[:, None], (rows - middle)[:, None]
        return (self.side - 1) / 2 + over * self.right + under * self.down


class Voxels(Protocol):
    """Volume lookups, by positions in voxels."""

    async def may_be_seen(self, samples: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the voxels around samples can be opaque, given the voxels before them."""

    async def opacities(self, places: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Of some voxels, where all is opaque."""

    async def shades(self, places: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Brightness of some voxels."""


def image_side(side: int) -> int:
    """The image's side in pixels, enough for every angle and a multiple of four."""
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
    """The brightness of each ray."""
    steps = np.arange(-view.reach, view.reach + 1)
    samples = starts[:, None, :] + steps[None, :, None] * view.along
    samples[..., 0] *= (view.slices - 1) / (view.side - 1)
    before = np.floor(samples).astype(np.int64)
    last = np.array([view.slices, view.side, view.side]) - 1
    inside = (before >= 0) & (before < last)
    is_left = inside[..., 0] & inside[..., 1] & inside[..., 2]  # faster than np.all of three
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


TILE = 8  # pixels of a side
TURN = 3.0  # degrees from image to image
AMBIENT, DIFFUSE, SPECULAR = 0.3, 0.5, 0.2
SHARPNESS = 16
SAMPLE = 64  # pixels of each image that are cast again without skipping
LEAST_SIDE = 8


class Arrays:
    """The volume, the shading table and the image in shared memory, several values per word."""

    def __init__(self, layout: Layout, volume: Volume) -> None:
        voxels, pixels = volume.opacities.size, image_side(volume.side)
        self.opacities = layout.array("opacities", voxels // 4, np.uint32)
        self.normals = layout.array("normals", voxels // 2, np.uint32)
        self.pyramid = layout.array("pyramid", -(-len(volume.pyramid) // 4), np.uint32)
        self.shading = layout.array("shading", NORMALS // 4, np.uint32)
        self.image = layout.array("image", (pixels, pixels // 4), np.uint32)


def volrend(
    side: int, processes: int, seed: int = 0, rotations: int = 4, slices: int | None = None
) -> SharedProgram:
    """Images of a volume of ``side`` voxels each way, turned a little from one to the next.

    ``slices`` if there are fewer of them, further apart: the head of the original has 113, of 256
    by 256.  The first process makes the volume, which nobody writes any more, and takes each image
    when it is done.  Each process works out its share of the shading table for every image.
    """
    slices = side if slices is None else slices
    if min(side, slices) < LEAST_SIDE or side & (side - 1) or slices & (slices - 1):
        raise SimulationError(
            f"volrend: {side} voxels a side and {slices} slices: powers of two from {LEAST_SIDE} "
            f"on, such as {_power_near(side)} and {_power_near(slices)}"
        )
    if slices > side or rotations < 1:
        raise SimulationError(
            f"volrend: {slices} slices and {rotations} rotations: at most {side}, and at least 1"
        )
    volume = make_volume(side, slices, seed)
    layout = Layout()
    arrays = Arrays(layout, volume)
    across = image_side(side) // TILE
    queues = TaskQueues(layout, processes, across * across)
    given = shares(across, across, processes)

    def set_up(array_of: Callable[[SharedArray], NDArray[Any]]) -> None:
        for array, values in (
            (arrays.opacities, volume.opacities),
            (arrays.normals, volume.normals),
            (arrays.pyramid, volume.pyramid),
        ):
            array_of(array).view(values.dtype)[: values.size] = values.ravel()

    async def body(me: Process) -> list[NDArray[np.uint8]]:
        images = []
        for turn in range(rotations):
            view = view_from(side, slices, turn * TURN)
            await _shade(me, arrays.shading, view)
            await queues.fill(me, given[me.number])
            await me.barrier()
            voxels = SharedVoxels(me, arrays, volume.side, volume.levels)
            while (tile := await queues.take(me)) is not None:
                rows, columns = (
                    range(each * TILE, (each + 1) * TILE) for each in divmod(tile, across)
                )
                down, over = np.meshgrid(np.array(rows), np.array(columns), indexing="ij")
                pixels = await cast(voxels, view, view.starts(over.ravel(), down.ravel()))
                words = range(columns.start // WORD, columns.stop // WORD)
                block = await me.write_block(arrays.image, rows, words)
                block[:] = pixels.view(np.uint32).reshape(block.shape)
            await me.barrier()
            if me.number == 0:
                images.append((await me.read(arrays.image)).view(np.uint8).copy())
        return images

    def check(run: Run) -> None:
        images = run.results[0]
        assert isinstance(images, list)
        pixels = image_side(side)
        picked = np.random.default_rng(seed).integers(0, pixels * pixels, SAMPLE)
        for turn, image in enumerate(images):
            view = view_from(side, slices, turn * TURN)
            starts = view.starts(picked % pixels, picked // pixels)
            wanted = at_once(cast(PlainVoxels(volume, shades_of(view)), view, starts))
            wrong = np.count_nonzero(image[picked] != wanted)
            check_result(
                not wrong, "volrend", f"{wrong} of {SAMPLE} pixels of image {turn} are another grey"
            )

    return SharedProgram(
        "volrend", f"{slices} by {side} by {side} voxels", layout, set_up, body, check
    )


def _power_near(number: int) -> int:
    return max(LEAST_SIDE, 1 << max(0, number - 1).bit_length())


def shades_of(view: View) -> NDArray[np.uint8]:
    """How bright a surface is, for the number of each normal, in light from where it is seen."""
    vectors = normal_vectors()
    towards = -(
        vectors[:, 0] * view.along[2]
        + vectors[:, 1] * view.along[1]
        + vectors[:, 2] * view.along[0]
    )
    facing = np.clip(towards, 0, 1)
    bright = AMBIENT + DIFFUSE * facing + SPECULAR * facing**SHARPNESS
    shades: NDArray[np.uint8] = (255 * bright).astype(np.uint8)
    return shades


async def _shade(me: Process, shading: SharedArray, view: View) -> None:
    """The process's share of the shading table."""
    words = NORMALS // WORD
    first, last = (words * each // me.processes for each in (me.number, me.number + 1))
    share = await me.write(shading, first, last)
    share[:] = shades_of(view).view(np.uint32)[first:last]


class SharedVoxels:
    """The volume in shared memory, as one process has it."""

    def __init__(self, me: Process, arrays: Arrays, side: int, levels: tuple[int, ...]) -> None:
        self._me, self._arrays = me, arrays
        self._side, self._levels = side, levels

    async def may_be_seen(self, samples: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Descend the pyramid: what is empty at one level is not looked up at the next."""
        left, (z, y, x) = np.arange(len(samples)), samples.T
        for level in range(len(self._levels) - 1, -1, -1):
            blocks, below = self._side >> level + 1, level + 1
            places = self._levels[level] + ((z >> below) * blocks + (y >> below)) * blocks
            places += x >> below
            kept = await self._look_up(self._arrays.pyramid, np.uint8, places) > 0
            left, z, y, x = left[kept], z[kept], y[kept], x[kept]
        seen = np.zeros(len(samples), np.bool_)
        seen[left] = True
        return seen

    async def opacities(self, places: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Opacities of some voxels, in regions that are not empty."""
        return await self._look_up(self._arrays.opacities, np.uint8, places)

    async def shades(self, places: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Brightness of some voxels by their normals."""
        normals = await self._look_up(self._arrays.normals, np.uint16, places)
        return await self._look_up(self._arrays.shading, np.uint8, normals.astype(np.int64))

    async def _look_up(
        self, array: SharedArray, kind: DTypeLike, places: NDArray[np.int64]
    ) -> NDArray[Any]:
        """Look up values that are packed several per word."""
        whole = await self._me.read_elements(array, places // (WORD // np.dtype(kind).itemsize))
        values: NDArray[Any] = whole.view(kind)[places]
        return values


class PlainVoxels:
    """The same volume in private memory, without skipping."""

    def __init__(self, volume: Volume, shades: NDArray[np.uint8]) -> None:
        self._opacities, self._normals = volume.opacities.ravel(), volume.normals.ravel()
        self._shades = shades

    async def may_be_seen(self, samples: NDArray[np.int64]) -> NDArray[np.bool_]:
        """All samples."""
        return np.ones(len(samples), np.bool_)

    async def opacities(self, places: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Of some voxels, where all is opaque."""
        return self._opacities[places]

    async def shades(self, places: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Brightness of some voxels by their normals."""
        return self._shades[self._normals[places]]
