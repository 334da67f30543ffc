"""Raytrace: an image of a scene of small things, by rays from the eye through each pixel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.apps.splash.intersections import Hits, Rays, hits_by_boxes, hits_by_trying_all
from nicscope.apps.splash.program import SharedProgram, at_once, check_result
from nicscope.apps.splash.scene import BOX, PRIMITIVE, make_scene
from nicscope.apps.splash.shading import colours_of, rays_through
from nicscope.apps.splash.task_queues import TaskQueues, shares
from nicscope.apps.svm.layout import Layout
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nicscope.apps.svm.layout import SharedArray
    from nicscope.apps.svm.process import Process
    from nicscope.apps.svm.running import Run

PRIMITIVES = 4096
TILE = 16  # pixels of a side
LOT = 256  # rays that a process numbers at once; the original: 1
SAMPLE = 24  # pixels that are traced again without the boxes


def raytrace(
    side: int, processes: int, seed: int = 0, primitives: int = PRIMITIVES, lot: int = LOT
) -> SharedProgram:
    """An image of ``side`` by ``side`` pixels, in tiles that processes take from each other.

    The first process makes the scene, which nobody writes any more.  Every ray has a number, from
    a count of all under one lock, ``lot`` at a time: with few, one page that is always wanted
    elsewhere.  110,000 primitives fill about as many pages as the car of the original.
    """
    if side < 1 or primitives < 1 or lot < 1:
        raise SimulationError(
            f"raytrace: {side} pixels, {primitives} primitives, {lot} numbers: at least 1 of each"
        )
    across = -(-side // TILE)
    scene = make_scene(primitives, seed)
    layout = Layout()
    shared = layout.array("primitives", len(scene.primitives), PRIMITIVE)
    boxes = layout.array("boxes", len(scene.boxes), BOX)
    image = layout.array("image", (side, side), np.int32)
    count = layout.array("rays", 1, np.int64)
    queues = TaskQueues(layout, processes, across * across)
    given = shares(across, across, processes)

    def set_up(array_of: Callable[[SharedArray], NDArray[Any]]) -> None:
        array_of(shared)[:] = scene.primitives
        array_of(boxes)[:] = scene.boxes

    async def body(me: Process) -> int:
        world = SharedWorld(me, shared, boxes, count, lot)
        await queues.fill(me, given[me.number])
        await me.barrier()
        while (tile := await queues.take(me)) is not None:
            rows, columns = (_pixels(place, side) for place in divmod(tile, across))
            down, over = np.meshgrid(np.array(rows), np.array(columns), indexing="ij")
            rays = rays_through(over.ravel(), down.ravel(), side)
            colours = (await colours_of(world, rays)).reshape(down.shape)
            (await me.write_block(image, rows, columns))[:] = colours
        return world.rays

    def check(run: Run) -> None:
        numbered = int(run.array(count)[0])
        traced = sum(rays for rays in run.results if isinstance(rays, int))
        check_result(numbered == traced, "raytrace", f"{traced:,} rays have {numbered:,} numbers")
        picked = np.random.default_rng(seed).integers(0, side * side, SAMPLE)
        world = PlainWorld(scene.primitives)
        wanted = at_once(colours_of(world, rays_through(picked % side, picked // side, side)))
        found = run.array(image).ravel()[picked]
        wrong = np.count_nonzero(found != wanted)
        check_result(not wrong, "raytrace", f"{wrong} of {SAMPLE} pixels have another colour")

    return SharedProgram("raytrace", f"{side:,} by {side:,} pixels", layout, set_up, body, check)


class SharedWorld:
    """The scene in shared memory, as one process has it."""

    def __init__(
        self,
        me: Process,
        primitives: SharedArray,
        boxes: SharedArray,
        count: SharedArray,
        lot: int,
    ) -> None:
        self.rays = 0  # that have gone through it
        self._me = me
        self._primitives, self._boxes = primitives, boxes
        self._count, self._lot = count, lot

    async def hits(self, rays: Rays, *, any_will_do: bool) -> Hits:
        """What the rays meet; each is counted."""
        many = len(rays.origins)
        self.rays += many
        for first in range(0, many, self._lot):
            await self._me.acquire("rays")
            (await self._me.write(self._count))[0] += min(self._lot, many - first)
            await self._me.release("rays")
        return await hits_by_boxes(
            self._me, self._boxes, self._primitives, rays, any_will_do=any_will_do
        )

    async def primitives(self, which: NDArray[np.int64]) -> Any:
        """Copies of some primitives."""
        return (await self._me.read_elements(self._primitives, which))[which]


class PlainWorld:
    """The same scene in memory of its own."""

    def __init__(self, primitives: NDArray[Any]) -> None:
        self._primitives = primitives

    async def hits(self, rays: Rays, *, any_will_do: bool) -> Hits:
        """What the rays meet first, whatever would do."""
        del any_will_do
        return hits_by_trying_all(self._primitives, rays)

    async def primitives(self, which: NDArray[np.int64]) -> Any:
        """Copies of some primitives."""
        return self._primitives[which]


def _pixels(tile: int, side: int) -> range:
    return range(tile * TILE, min(side, (tile + 1) * TILE))
