"""Raytrace: an image of a scene of small primitives, by rays through each pixel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from nicscope.apps.splash.program import SharedProgram, at_once, check_result, shares
from nicscope.apps.splash.work_pools import FREE_LIST, HEADER, SIZE, WorkPools
from nicscope.apps.svm.memory import Layout, SharedArray
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nicscope.apps.svm.process import Process, Run


TRIANGLE, SPHERE = 0, 1
PRIMITIVE = np.dtype(
    [
        ("kind", np.int64),
        ("points", np.float64, (3, 3)),  # a triangle's corners; a sphere's centre, first
        ("radius", np.float64),
        ("normal", np.float64, 3),  # of a triangle
        ("low", np.float64, 3),
        ("high", np.float64, 3),
        ("colour", np.float64, 3),
        ("diffuse", np.float64),
        ("specular", np.float64),
        ("mirror", np.float64),  # how much of what it reflects
    ]
)
# A leaf has ``count`` primitives from ``first`` on, another node two boxes: its own number + 1,
# and ``second``, which lies further along ``axis``.
BOX = np.dtype(
    [
        ("low", np.float64, 3),
        ("high", np.float64, 3),
        ("second", np.int32),
        ("axis", np.int32),
        ("first", np.int32),
        ("count", np.int32),
    ]
)
LEAF_PRIMITIVES = 4
SPHERES = 4  # one primitive of so many
MIRRORS = 4
COVER = 3.0  # how often the primitives would cover a side of the cube that they fill


class Scene(NamedTuple):
    """Primitives in the order of the hierarchy's leaves, and the bounding boxes, the root first."""

    primitives: NDArray[Any]
    boxes: NDArray[Any]


def make_scene(many: int, seed: int) -> Scene:
    """So many primitives spread over the unit cube, in the same way for the same seed."""
    rng = np.random.default_rng(seed)
    made = np.zeros(many, PRIMITIVE)
    size = np.sqrt(COVER / many)
    centres = rng.uniform(0.0, 1.0, (many, 3))
    made["kind"] = np.where(np.arange(many) % SPHERES == 0, SPHERE, TRIANGLE)
    corners = centres[:, None, :] + rng.uniform(-size, size, (many, 3, 3))
    made["points"] = corners
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    made["normal"] = normal / np.linalg.norm(normal, axis=1)[:, None]
    made["low"], made["high"] = corners.min(axis=1), corners.max(axis=1)
    round_ones = made["kind"] == SPHERE
    radius = rng.uniform(size / 4, size / 2, many)[round_ones]
    made["radius"][round_ones] = radius
    made["points"][round_ones] = centres[round_ones][:, None, :]
    made["low"][round_ones] = centres[round_ones] - radius[:, None]
    made["high"][round_ones] = centres[round_ones] + radius[:, None]
    made["colour"] = rng.uniform(0.2, 1.0, (many, 3))
    made["diffuse"], made["specular"] = 0.7, 0.3
    made["mirror"] = np.where(rng.integers(0, MIRRORS, many) == 0, 0.5, 0.0)
    return _in_boxes(made)


def _in_boxes(primitives: NDArray[Any]) -> Scene:
    """A bounding volume hierarchy, split in halves of equal count along the longest side."""
    centres = (primitives["low"] + primitives["high"]) / 2
    boxes = np.zeros(2 * len(primitives), BOX)
    order: list[NDArray[np.int64]] = []
    placed, used = 0, 0
    waiting = [(np.arange(len(primitives)), -1)]  # what is in it, and whose second box it is
    while waiting:
        inside, parent = waiting.pop()
        box, number = boxes[used], used
        used += 1
        if parent >= 0:
            boxes["second"][parent] = number
        box["low"] = primitives["low"][inside].min(axis=0)
        box["high"] = primitives["high"][inside].max(axis=0)
        if len(inside) <= LEAF_PRIMITIVES:
            box["first"], box["count"] = placed, len(inside)
            placed += len(inside)
            order.append(inside)
            continue
        axis = int((box["high"] - box["low"]).argmax())
        box["axis"] = axis
        half = len(inside) // 2
        parted = inside[np.argpartition(centres[inside, axis], half)]
        waiting += [(parted[half:], number), (parted[:half], -1)]
    return Scene(primitives[np.concatenate(order)], boxes[:used].copy())


DEEPEST = 64  # boxes that wait for one ray
NEAREST = 1e-9  # a ray does not meet what it comes from
NOTHING = -1


class Rays(NamedTuple):
    """Origins, unit directions, and lengths."""

    origins: NDArray[np.float64]
    directions: NDArray[np.float64]
    reach: NDArray[np.float64]


class Hits(NamedTuple):
    """The first primitive that each ray hits, ``NOTHING`` if none, and the distance."""

    which: NDArray[np.int64]
    distances: NDArray[np.float64]


def dot(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each row with its like; in the same order of additions for any number of rows."""
    products = left * right
    total: NDArray[np.float64] = products[..., 0] + products[..., 1] + products[..., 2]
    return total


def cross(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """The row-wise cross product, faster than NumPy's for few rows."""
    product = np.empty(np.broadcast_shapes(left.shape, right.shape))
    for axis in range(3):
        one, two = (axis + 1) % 3, (axis + 2) % 3
        product[..., axis] = left[..., one] * right[..., two] - left[..., two] * right[..., one]
    return product


async def hits_by_boxes(
    me: Process, boxes: SharedArray, primitives: SharedArray, rays: Rays, *, any_will_do: bool
) -> Hits:
    """Traverse the hierarchy for all rays at once, each to its nearer boxes first.

    ``any_will_do``: a ray that has met something ends there.
    """
    many = len(rays.origins)
    which, best = np.full(many, NOTHING), rays.reach.copy()
    with np.errstate(divide="ignore"):
        inverse = 1.0 / rays.directions
    stack, height = np.zeros((many, DEEPEST), np.int64), np.ones(many, np.int64)
    while len(going := np.flatnonzero(height)):
        height[going] -= 1
        tops = stack[going, height[going]]
        whole = await me.read_elements(boxes, tops)
        me.work(2 * len(tops))
        enters = _enters(whole[tops], rays.origins[going], inverse[going], best[going])
        going, tops = going[enters], tops[enters]
        found = whole[tops]
        is_leaf = found["count"] > 0
        # Of both boxes below, the nearer one is on top.
        on, first, second = going[~is_leaf], tops[~is_leaf] + 1, found["second"][~is_leaf]
        back = rays.directions[on, found["axis"][~is_leaf]] < 0
        stack[on, height[on]] = np.where(back, first, second)
        stack[on, height[on] + 1] = np.where(back, second, first)
        height[on] += 2
        leaves, on = found[is_leaf], going[is_leaf]
        inside = np.arange(LEAF_PRIMITIVES) < leaves["count"][:, None]
        tried = (leaves["first"][:, None] + np.arange(LEAF_PRIMITIVES))[inside].astype(np.int64)
        on = np.repeat(on, leaves["count"])
        whole = await me.read_elements(primitives, tried)
        me.work(4 * len(tried))
        far = distances_to(whole[tried], rays.origins[on], rays.directions[on])
        order = np.lexsort((tried, far))[::-1]  # the nearest is written last
        order = order[far[order] < best[on[order]]]
        best[on[order]] = far[order]
        which[on[order]] = tried[order]
        if any_will_do:
            height[which != NOTHING] = 0
    return Hits(which, best)


def _enters(
    boxes: NDArray[Any],
    origins: NDArray[np.float64],
    inverse: NDArray[np.float64],
    best: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Whether each ray enters its box before its nearest hit so far."""
    with np.errstate(invalid="ignore"):
        one, other = (boxes["low"] - origins) * inverse, (boxes["high"] - origins) * inverse
    first = np.fmax.reduce(np.fmin(one, other), axis=1)
    last = np.fmin.reduce(np.fmax(one, other), axis=1)
    entered: NDArray[np.bool_] = (first <= last) & (last >= 0) & (first <= best)
    return entered


def distances_to(
    primitives: NDArray[Any], origins: NDArray[np.float64], directions: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The distance of each ray to its primitive; infinity if it misses."""
    round_ones = primitives["kind"] == SPHERE
    far = _to_triangles(primitives["points"], origins, directions)
    if round_ones.any():
        to_spheres = _to_spheres(
            primitives["points"][..., 0, :], primitives["radius"], origins, directions
        )
        far = np.where(round_ones, to_spheres, far)
    return far


def _to_triangles(
    points: NDArray[np.float64], origins: NDArray[np.float64], directions: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Moeller and Trumbore, Journal of Graphics Tools 2 (1997) 21."""
    one, two = points[..., 1, :] - points[..., 0, :], points[..., 2, :] - points[..., 0, :]
    across = cross(directions, two)
    scale = dot(one, across)
    with np.errstate(divide="ignore", invalid="ignore"):
        away = origins - points[..., 0, :]
        u = dot(away, across) / scale
        over = cross(away, one)
        v = dot(directions, over) / scale
        far = dot(two, over) / scale
        meets = (u >= 0) & (v >= 0) & (u + v <= 1) & (far > NEAREST)
    return np.where(meets, far, np.inf)


def _to_spheres(
    centres: NDArray[np.float64],
    radius: NDArray[np.float64],
    origins: NDArray[np.float64],
    directions: NDArray[np.float64],
) -> NDArray[np.float64]:
    away = centres - origins
    along = dot(away, directions)
    within = radius * radius - (dot(away, away) - along * along)
    half = np.sqrt(np.maximum(within, 0))
    far = np.where(along - half > NEAREST, along - half, along + half)
    return np.where((within >= 0) & (far > NEAREST), far, np.inf)


def hits_by_brute_force(primitives: NDArray[Any], rays: Rays) -> Hits:
    """Test every ray against every primitive."""
    which, best = np.full(len(rays.origins), NOTHING), rays.reach.copy()
    for ray in range(len(which)):
        far = distances_to(primitives, rays.origins[ray], rays.directions[ray])
        nearest = int(far.argmin())
        if far[nearest] < best[ray]:
            which[ray], best[ray] = nearest, far[nearest]
    return Hits(which, best)


EYE = np.array([0.5, 0.5, -1.5])  # before the unit cube, whose front side is the screen
LIGHTS = np.array([[-1.0, 2.0, -2.0], [2.5, 1.5, -1.0]])
AMBIENT = 0.15
BACKGROUND = np.array([0.1, 0.15, 0.3])
REFLECTIONS = 2  # of one ray, one after another
SHARPNESS = 3  # of lamps' reflections: so often squared
BRIGHT = 255


class World(Protocol):
    """The scene that rays are traced in."""

    async def hits(self, rays: Rays, *, any_will_do: bool) -> Hits:
        """What the rays meet; each is counted."""

    async def primitives(self, which: NDArray[np.int64]) -> Any:
        """Copies of some primitives."""


def rays_through(columns: NDArray[np.int64], rows: NDArray[np.int64], side: int) -> Rays:
    """A ray from the eye through each pixel of a square image."""
    places = np.zeros((len(columns), 3))
    places[:, 0], places[:, 1] = (columns + 0.5) / side, 1 - (rows + 0.5) / side
    away = places - EYE
    return Rays(places, _unit(away), np.full(len(columns), np.inf))


async def colours_of(world: World, rays: Rays) -> NDArray[np.int32]:
    """The red, green and blue of the rays' pixels."""
    colours, weights = np.zeros((len(rays.origins), 3)), np.ones(len(rays.origins))
    pixels = np.arange(len(rays.origins))
    for turn in range(REFLECTIONS + 1):
        hits = await world.hits(rays, any_will_do=False)
        met = hits.which != NOTHING
        colours[pixels[~met]] += weights[pixels[~met], None] * BACKGROUND
        pixels, directions = pixels[met], rays.directions[met]
        places = rays.origins[met] + directions * hits.distances[met, None]
        primitives = await world.primitives(hits.which[met])
        normals = _normals(primitives, places, directions)
        light = await _light(world, primitives, places, normals, directions)
        colours[pixels] += weights[pixels, None] * light
        is_mirror = primitives["mirror"] > 0
        if turn == REFLECTIONS or not is_mirror.any():
            break
        weights[pixels] *= primitives["mirror"]
        back = directions - 2 * dot(directions, normals)[:, None] * normals
        pixels, places, back = pixels[is_mirror], places[is_mirror], back[is_mirror]
        rays = Rays(places, back, np.full(len(places), np.inf))
    shades: NDArray[np.int32] = (np.clip(colours, 0, 1) * BRIGHT).astype(np.int32)
    return shades


def _normals(
    primitives: Any, places: NDArray[np.float64], directions: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Surface normals at the hits, facing the ray's origin."""
    outward = (places - primitives["points"][:, 0]) / np.where(
        primitives["radius"] > 0, primitives["radius"], 1
    )[:, None]
    normals = np.where((primitives["kind"] == SPHERE)[:, None], outward, primitives["normal"])
    turned: NDArray[np.float64] = np.where(
        (dot(normals, directions) > 0)[:, None], -normals, normals
    )
    return turned


async def _light(
    world: World,
    primitives: Any,
    places: NDArray[np.float64],
    normals: NDArray[np.float64],
    directions: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The light that primitives send back along the rays, mirrors excluded."""
    light = AMBIENT * primitives["colour"]
    if not len(places):
        return np.zeros((0, 3))
    away = LIGHTS[:, None, :] - places
    towards, reach = _unit(away), np.sqrt(dot(away, away))
    origins = np.broadcast_to(places, away.shape).reshape(-1, 3)
    shadows = Rays(origins, towards.reshape(-1, 3), reach.ravel())
    met = (await world.hits(shadows, any_will_do=True)).which.reshape(reach.shape)
    for lamp in range(len(LIGHTS)):
        facing = dot(normals, towards[lamp])
        lit = (met[lamp] == NOTHING) & (facing > 0)
        glare = dot(directions, towards[lamp] - 2 * facing[:, None] * normals)
        shine = np.where(glare > 0, glare, 0.0)
        for _ in range(SHARPNESS):
            shine = shine * shine
        matt = (primitives["diffuse"] * facing)[:, None] * primitives["colour"]
        bright = matt + (primitives["specular"] * shine)[:, None]
        light = light + np.where(lit[:, None], bright, 0.0)
    total: NDArray[np.float64] = light
    return total


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return vectors / np.sqrt(dot(vectors, vectors))[..., None]


PRIMITIVES = 4096
TILE = 16  # pixels of a side
PIXEL = np.dtype([("shades", np.int32, 3)])  # of the frame buffer (SPLASH-2's rt.H)
OF_EACH = 0  # numbers at once: each process numbers its rays itself
SAMPLE = 24  # pixels that are traced again without the boxes


def raytrace(
    side: int, processes: int, seed: int = 0, primitives: int = PRIMITIVES, lot: int = OF_EACH
) -> SharedProgram:
    """An image of ``side`` by ``side`` pixels, in tiles that processes take from each other.

    A tile is a job of SPLASH-2's work pools.  The first process makes the scene, which nobody
    writes any more.  Communication is about the task queues (UTLB, 6.1): a ray's number is its
    process's affair.  SPLASH-2 numbers rays of all from one count under a lock, as ``lot=1`` does,
    ``lot`` of them at a time: that page is always wanted elsewhere, and makes more lookups than the
    paper's whole program.
    """
    if side < 1 or primitives < 1 or lot < OF_EACH:
        raise SimulationError(
            f"raytrace: {side} pixels, {primitives} primitives, {lot} numbers at once: at least "
            "1 pixel and primitive, and no less than 0 numbers"
        )
    across = -(-side // TILE)
    scene = make_scene(primitives, seed)
    layout = Layout()
    shared = layout.array("primitives", len(scene.primitives), PRIMITIVE)
    boxes = layout.array("boxes", len(scene.boxes), BOX)
    image = layout.array("image", (side, side), PIXEL)
    count = layout.array("rays", 1, np.int64) if lot else None
    pools = WorkPools(layout, processes, across * across)
    given = shares(across, across, processes)

    def set_up(array_of: Callable[[SharedArray], NDArray[Any]]) -> None:
        array_of(shared)[:] = scene.primitives
        array_of(boxes)[:] = scene.boxes
        pools.heap.set_up(array_of)

    async def body(me: Process) -> int:
        world = SharedWorld(me, shared, boxes, count, lot)
        await pools.fill(me, [_job(*divmod(tile, across), side) for tile in given[me.number]])
        await me.barrier()
        while (job := await pools.take(me)) is not None:
            row, column, height, width = job
            rows, columns = range(row, row + height), range(column, column + width)
            down, over = np.meshgrid(np.array(rows), np.array(columns), indexing="ij")
            rays = rays_through(over.ravel(), down.ravel(), side)
            colours = (await colours_of(world, rays)).reshape(*down.shape, 3)
            (await me.write_block(image, rows, columns))["shades"] = colours
        return world.rays

    def check(run: Run) -> None:
        if count is not None:
            numbered = int(run.array(count)[0])
            traced = sum(rays for rays in run.results if isinstance(rays, int))
            told = f"{traced:,} rays have {numbered:,} numbers"
            check_result(numbered == traced, "raytrace", told)
        first = int(run.array(pools.state)[FREE_LIST])
        left = pools.heap.words - HEADER - int(run.array(pools.heap.array)[first + SIZE])
        check_result(not left, "raytrace", f"{4 * left:,} bytes of jobs are not freed")
        picked = np.random.default_rng(seed).integers(0, side * side, SAMPLE)
        world = PlainWorld(scene.primitives)
        wanted = at_once(colours_of(world, rays_through(picked % side, picked // side, side)))
        found = run.array(image)["shades"].reshape(-1, 3)[picked]
        wrong = np.count_nonzero((found != wanted).any(axis=1))
        check_result(not wrong, "raytrace", f"{wrong} of {SAMPLE} pixels have another colour")

    return SharedProgram("raytrace", f"{side:,} by {side:,} pixels", layout, set_up, body, check)


class SharedWorld:
    """The scene in shared memory, as one process has it."""

    def __init__(
        self,
        me: Process,
        primitives: SharedArray,
        boxes: SharedArray,
        count: SharedArray | None,
        lot: int,
    ) -> None:
        self.rays = 0  # that have gone through it
        self._me = me
        self._primitives, self._boxes = primitives, boxes
        self._count, self._lot = count, lot

    async def hits(self, rays: Rays, *, any_will_do: bool) -> Hits:
        """The first hits of the rays; each ray is counted."""
        many = len(rays.origins)
        self.rays += many
        if self._count is not None:
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
    """The same scene in private memory."""

    def __init__(self, primitives: NDArray[Any]) -> None:
        self._primitives = primitives

    async def hits(self, rays: Rays, *, any_will_do: bool) -> Hits:
        """The first hits of the rays, by testing all primitives."""
        del any_will_do
        return hits_by_brute_force(self._primitives, rays)

    async def primitives(self, which: NDArray[np.int64]) -> Any:
        """Copies of some primitives."""
        return self._primitives[which]


def _job(row: int, column: int, side: int) -> tuple[int, int, int, int]:
    """A tile as a job: its first pixel's row and column, and how many of both it has."""
    row, column = row * TILE, column * TILE
    return row, column, min(TILE, side - row), min(TILE, side - column)
