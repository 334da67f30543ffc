"""Volrend: images of a volume from several sides, by rays that skip what is empty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.apps.splash.program import SharedProgram, at_once, check_result
from nicscope.apps.splash.ray_casting import cast, image_side, view_from
from nicscope.apps.splash.task_queues import TaskQueues, shares
from nicscope.apps.splash.volume import NORMALS, Volume, make_volume, normal_vectors
from nicscope.apps.svm.layout import WORD, Layout
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike, NDArray

    from nicscope.apps.splash.ray_casting import View
    from nicscope.apps.svm.layout import SharedArray
    from nicscope.apps.svm.process import Process
    from nicscope.apps.svm.running import Run

TILE = 8  # pixels of a side
TURN = 3.0  # degrees from image to image
AMBIENT, DIFFUSE, SPECULAR = 0.3, 0.5, 0.2
SHARPNESS = 16
SAMPLE = 64  # pixels of each image that are cast again without skipping
LEAST_SIDE = 8


class Arrays:
    """The volume, the shading table and the image in shared memory, several values a word."""

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
    return max(LEAST_SIDE, 1 << round(np.log2(max(1, number))))


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
        """Down the pyramid: what is empty at one level is not asked for at the next."""
        seen = np.ones(len(samples), np.bool_)
        for level in range(len(self._levels) - 1, -1, -1):
            z, y, x = (samples[seen] >> level + 1).T
            blocks = self._side >> level + 1
            places = self._levels[level] + (z * blocks + y) * blocks + x
            seen[seen] = await self._look_up(self._arrays.pyramid, np.uint8, places) > 0
        return seen

    async def opacities(self, places: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Of some voxels, where all is opaque."""
        return await self._look_up(self._arrays.opacities, np.uint8, places)

    async def shades(self, places: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Of some voxels by their normals."""
        normals = await self._look_up(self._arrays.normals, np.uint16, places)
        return await self._look_up(self._arrays.shading, np.uint8, normals.astype(np.int64))

    async def _look_up(
        self, array: SharedArray, kind: DTypeLike, places: NDArray[np.int64]
    ) -> NDArray[Any]:
        """Values of which a word has several."""
        whole = await self._me.read_elements(array, places // (WORD // np.dtype(kind).itemsize))
        values: NDArray[Any] = whole.view(kind)[places]
        return values


class PlainVoxels:
    """The same volume in memory of its own, of which nothing is skipped."""

    def __init__(self, volume: Volume, shades: NDArray[np.uint8]) -> None:
        self._opacities, self._normals = volume.opacities.ravel(), volume.normals.ravel()
        self._shades = shades

    async def may_be_seen(self, samples: NDArray[np.int64]) -> NDArray[np.bool_]:
        """All of them."""
        return np.ones(len(samples), np.bool_)

    async def opacities(self, places: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Of some voxels, where all is opaque."""
        return self._opacities[places]

    async def shades(self, places: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Of some voxels by their normals."""
        return self._shades[self._normals[places]]
