"""The colours that rays bring back: lights, shadows and mirrors, for many rays at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nicscope.apps.splash.intersections import NOTHING, Hits, Rays, dot
from nicscope.apps.splash.scene import SPHERE

if TYPE_CHECKING:
    from numpy.typing import NDArray

EYE = np.array([0.5, 0.5, -1.5])  # before the unit cube, whose front side is the screen
LIGHTS = np.array([[-1.0, 2.0, -2.0], [2.5, 1.5, -1.0]])
AMBIENT = 0.15
BACKGROUND = np.array([0.1, 0.15, 0.3])
REFLECTIONS = 2  # of one ray, one after another
SHARPNESS = 3  # of lamps' reflections: so often squared
BRIGHT = 255


class World(Protocol):
    """What rays go through."""

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
    """The pixels that the rays see, red above green above blue."""
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
    shades = (np.clip(colours, 0, 1) * BRIGHT).astype(np.int32)
    packed: NDArray[np.int32] = shades[:, 0] << 16 | shades[:, 1] << 8 | shades[:, 2]
    return packed


def _normals(
    primitives: Any, places: NDArray[np.float64], directions: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Of the primitives where they were met, towards where the ray came from."""
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
    """What the primitives send back along the rays, but of mirrors."""
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
