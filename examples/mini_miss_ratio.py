"""What a miss costs: a ping-pong whose requests miss on one side as often as is asked (Figure 4).

python examples/mini_miss_ratio.py
"""

from __future__ import annotations

from nicscope.studies.handle_misses import measure

SIZES = (64, 4096, 65536)  # bytes
RATIOS = (0.0, 0.1, 0.5, 1.0)


def main() -> None:
    """Print latency and bandwidth by size and ratio, and where a miss's time goes."""
    print("bytes  ratio  latency us    MB/s")
    for size in SIZES:
        for ratio in RATIOS:
            point = measure(size, ratio, round_trips=20)
            print(f"{size:5}  {ratio:5.1f}  {point.latency_us:10.1f}  {point.mbytes_s:6.1f}")
    parts = point.parts
    assert parts is not None
    print(f"\nA round trip of {size} bytes that misses, in us:")
    for name, time in parts._asdict().items():
        print(f"  {name.replace('_', ' '):14}{time:7.1f}")


if __name__ == "__main__":
    main()
