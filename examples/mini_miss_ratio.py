"""What a miss costs: a ping-pong whose pages miss on one side as often as is asked (Figure 4).

python examples/mini_miss_ratio.py [figure.png]
"""

from __future__ import annotations

import sys
from pathlib import Path

from nicscope.studies.handle_misses import by_page, measure

SIZES = (64, 4096, 16384)  # bytes
RATIOS = (0.0, 0.1, 0.5, 1.0)


def main() -> None:
    """Print latency and bandwidth by size and ratio, and where a miss's time goes."""
    print("bytes  ratio  latency us    MB/s")
    for size in SIZES:
        for ratio in RATIOS:
            point = measure(size, ratio, round_trips=20, design=by_page())
            print(f"{size:5}  {ratio:5.1f}  {point.latency_us:10.1f}  {point.mbytes_s:6.1f}")
    size = 4096
    parts = measure(size, 1.0, round_trips=20, design=by_page()).parts
    assert parts is not None
    print(f"\nA round trip of {size} bytes that misses, in us:")
    for name, time in parts._asdict().items():
        print(f"  {name.replace('_', ' '):14}{time:7.1f}")


def draw(target: Path) -> None:
    """Draw every size at every tenth of the ratio, as the paper's Figure 4."""
    from nicscope.reports.figures.messages import draw_miss_ratio
    from nicscope.reports.figures.style import save

    sizes = (64, 1024, 4096, 16384, 65536)
    curves = {
        size: [measure(size, ratio / 10, 40, by_page()) for ratio in range(11)] for size in sizes
    }
    save(draw_miss_ratio(curves, "mini-cluster"), target, "png")


if __name__ == "__main__":
    main()
    if len(sys.argv) > 1:
        draw(Path(sys.argv[1]))
