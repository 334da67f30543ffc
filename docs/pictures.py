"""The pictures of the README and of the tour, each drawn from what a command prints.

    python docs/pictures.py            draws them again and says which were out of date
    python docs/pictures.py --check    the same, and ends with 1 if one was

They have no background and a grey that is legible on white and on black, so that they fit either.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from nicscope.reports.wording import BLUE, GREEN, ORANGE, SKY, VERMILION

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
INK = "#7A7A7A"  # 4.3 to 1 against white, 4.9 to 1 against black
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "svg.fonttype": "none",
    "svg.hashsalt": "nicscope",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
TRACE = "bundled:redis_server"
SIZES = "16..8192"
FLOW = "flow --platform pentium2-440lx --policy cut-through --payload 4096 --count 1 --json"
PROGRAM = ROOT / "examples" / "first_program.py"
PARTS = {  # what flow calls them, and what they are to who has not read its page
    "host write": ("sender's processor posts it", SKY),
    "firmware, sending": ("sender's NIC takes it up", ORANGE),
    "hostTx": ("DMA out of memory", BLUE),
    "network": ("on the wire", GREEN),
    "firmware, receiving": ("receiver's NIC takes it up", ORANGE),
    "hostRcv": ("DMA into memory", BLUE),
    "host read": ("receiver's processor reads of it", SKY),
}
# Tracks of a timeline, by what they are, from the host down to the wire.
TRACKS = {
    "CPU": ("processor", SKY),
    "firmware": ("NIC", ORANGE),
    "table reads": ("fetch of a translation", VERMILION),
    "hostTx": ("DMA out of memory", BLUE),
    "netTx": ("on the wire", GREEN),
    "hostRcv": ("DMA into memory", BLUE),
}


def printed(*arguments: str) -> str:
    """What nicscope prints when it is called so."""
    command = [sys.executable, "-m", "nicscope", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def axes_of(height: float) -> tuple[Figure, Axes]:
    """A figure that is 7.2 inches wide, with one plain panel."""
    figure = Figure(figsize=(7.2, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def page_sizes() -> Figure:
    """Misses of a redis server's traffic over the entries of the NIC's cache, by page size."""
    figure, axes = axes_of(3.2)
    looks = {"4KiB": (ORANGE, "4 KiB pages"), "2MiB": (BLUE, "2 MiB pages")}
    for size, (colour, label) in looks.items():
        options = ("--entries", SIZES, "--ways", "1", "--page-size", size, "--json")
        [curve] = json.loads(printed("curve", TRACE, *options))["curves"]
        every = curve["fully_associative"]
        axes.plot(every["entries"], every["ni_misses"], color=colour, linewidth=2.5)
        least = every["ni_misses"][-1]
        text = f"{label}: {least:,} at the least"
        up = 9 if size == "2MiB" else -18
        axes.annotate(text, (8192, least), (0, up), textcoords="offset points", ha="right")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks([2**power for power in range(4, 14)], [str(2**power) for power in range(4, 14)])
    axes.minorticks_off()
    axes.set_xlabel("translations that the NIC holds")
    axes.set_ylabel("misses")
    axes.set_title("A redis server under its benchmark", loc="left", fontsize=11)
    return figure


def latency() -> Figure:
    """Where the time of one message goes, part by part."""
    figure, axes = axes_of(2.5)
    parts = [(name, us) for name, us in parts_of(json.loads(printed(*FLOW.split()))) if us > 0]
    begin = 0.0
    for row, (name, us) in enumerate(parts):
        axes.barh(row, us, 0.7, begin, color=PARTS[name][1])
        after = begin + us
        inside = row == max(range(len(parts)), key=lambda one: parts[one][1])
        place, side = (begin + us / 2, "center") if inside else (after + 0.7, "left")
        colour = "white" if inside else INK
        axes.annotate(f"{us:.1f}", (place, row), ha=side, va="center", color=colour)
        begin = after
    axes.set_yticks(range(len(parts)), [PARTS[name][0] for name, _ in parts])
    axes.set_ylim(len(parts) - 0.4, -0.6)
    axes.set_xlim(0, begin * 1.05)
    axes.set_xlabel(f"us; {begin:.1f} in all")
    axes.set_title("A message of 4,096 bytes between two Pentium II", loc="left", fontsize=11)
    return figure


def parts_of(found: dict[str, Any]) -> list[tuple[str, float]]:
    """The parts of the first message's latency, in us, in the order in which they come."""
    return [(part["part"], part["total_ps"] / 1e6) for part in found["parts"]]


def program() -> Figure:
    """Which engine did what when, while the program of the tour asks for a page, twice."""
    figure, axes = axes_of(3.6)
    with tempfile.TemporaryDirectory() as folder:
        timeline = Path(folder) / "timeline.json"
        printed("simulate", str(PROGRAM), "--timeline", str(timeline))
        events = json.loads(timeline.read_text())["traceEvents"]
    names = {
        (one["pid"], one["tid"]): one["args"]["name"]
        for one in events
        if one["name"] == "thread_name"
    }
    slices = [
        (one["pid"], names[one["pid"], one["tid"]], one["ts"], one["dur"])
        for one in events
        if one["ph"] == "X" and one["dur"] > 0
    ]
    busy = {(node, track) for node, track, _, _ in slices}
    rows = [(node, track) for node in (0, 1) for track in TRACKS if (node, track) in busy]
    for node, track, begin, us in slices:
        if (node, track) in rows:
            axes.barh(rows.index((node, track)), us, 0.75, begin, color=TRACKS[track][1])
    labels = [f"{('client', 'server')[node]}: {TRACKS[track][0]}" for node, track in rows]
    axes.set_yticks(range(len(rows)), labels, fontsize=9)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.axhline(sum(node == 0 for node, _ in rows) - 0.5, color=INK, linewidth=0.7)
    axes.set_xlabel("us")
    axes.set_title("A client asks a server for a page, twice", loc="left", fontsize=11)
    return figure


EVERY: dict[str, Callable[[], Figure]] = {
    "page-sizes": page_sizes,
    "latency": latency,
    "program": program,
}


def drawn(make: Callable[[], Figure]) -> bytes:
    """The picture as SVG: the same data make the same bytes."""
    file = io.BytesIO()
    with rc_context(STYLE):
        make().savefig(file, format="svg", transparent=True, metadata={"Date": None})
    return file.getvalue()


def main(arguments: list[str]) -> int:
    """Draw the pictures, or those that are named, and say which were out of date."""
    stale = 0
    for name in [one for one in arguments if one in EVERY] or EVERY:
        target, content = PICTURES / f"{name}.svg", drawn(EVERY[name])
        if not target.exists() or target.read_bytes() != content:
            PICTURES.mkdir(exist_ok=True)
            target.write_bytes(content)
            print(f"{target.relative_to(ROOT)} was out of date; it is drawn anew")
            stale += 1
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
