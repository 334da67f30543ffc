"""Figures as the pixels that they are saved as."""

import io

import numpy as np
from matplotlib.image import imread

from nicscope.reports.figures.style import save


def drawn(figure):
    picture = io.BytesIO()
    save(figure, picture, "png")
    picture.seek(0)
    return imread(picture)


def is_a_slide(figure, most=0.9):
    """Whether it is as large as a slide, coloured up to that share, and nothing leaves it."""
    pixels = drawn(figure)
    coloured = np.ptp(pixels[..., :3], axis=2) > 0.3
    edges = (pixels[[0, -1]], pixels[:, [0, -1]])
    return (
        pixels.shape[:2] == (1080, 1920)
        and 0.002 < coloured.mean() < most
        and all(np.all(edge[..., :3] == 1.0) for edge in edges)
    )
