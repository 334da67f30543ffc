"""What of a flow is drawn, and its graph as a page to zoom; that needs Plotly, an extra."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.reports.wording import BAND_SHADES, whole
from nicscope.studies.flow.transfers import BANDS, NET_RCV, bandwidth_steps, is_moving, receptions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.studies.flow.report import FlowReport

MOST_DRAWN = 20  # of a picture; more would be too narrow to tell apart


def drawn_transfers(report: FlowReport, most: int = MOST_DRAWN) -> NDArray[Any]:
    """Transfers (TRANSFER) of the first flow's first ``most`` packets, as far as they moved."""
    sender, receiver = report.question.flows[0]
    transfers = report.transfers[is_moving(report.transfers)]
    mine = np.isin(transfers["node"], (sender, receiver)) & (transfers["sender"] == sender)
    shown: NDArray[Any] = transfers[mine & (transfers["packet"] < most)]
    return shown


def title(report: FlowReport, most: int = MOST_DRAWN) -> str:
    """Who, how, how large; and which flow and how many packets, if not all are drawn."""
    ask = report.question
    names = " to ".join(dict.fromkeys(each.name for each in ask.platforms))
    text = f"{names}, {ask.policy}, {whole(ask.payload)} bytes"
    parts = []
    if len(ask.flows) > 1:
        sender, receiver = ask.flows[0]
        parts.append(f"node {sender} to node {receiver}, one of {len(ask.flows)} flows")
    if ask.count > most:
        parts.append(f"first {most} packets")
    return text + (f" ({'; '.join(parts)})" if parts else "")


MOST_PACKETS = 500
MISSING = "flow.html was left out: it needs Plotly; install it with pip install 'nicscope[html]'"
FULL, THIN = 0.74, 0.12
PS_PER_US = 10**6
DASHES = {"hostTx": "solid", "netTx": "dash", "netRcv": "dot", "hostRcv": "solid"}
_HOVER = (
    "<b>packet %{customdata[0]}</b> %{customdata[1]}<br>%{customdata[2]:,} bytes"
    "<br>%{customdata[3]} to %{customdata[4]} us<br>%{customdata[5]:.1f} MB/s<extra>%{y}</extra>"
)
# Phones lay it out at their own width; Plotly draws on white whatever the theme.
_HEAD = (
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    "<style>:root { color-scheme: light; } "
    "body { margin: 0; background: #fff; color: #1b1b1b; font: 15px/1.45 system-ui, sans-serif; } "
    "h1 { font-size: 1.15rem; margin: 12px 16px 4px; } p { margin: 0 16px; max-width: 75ch; }"
    "</style>"
)
_TOLD = (
    "Above, when each of the four engines on a packet's way moved it, packets in turns of two "
    "shades; below, how fast. Point at a bar for its packet, drag to zoom, double-click for all."
)


def has_plotly() -> bool:
    """Whether the optional extra is there."""
    from importlib.util import find_spec

    return find_spec("plotly") is not None


def page_of(report: FlowReport) -> str:
    """The page as one text that needs nothing else; the flow above, bandwidth over time below."""
    page: str = _figure(report).to_html(
        include_plotlyjs=True,
        full_html=True,
        div_id="flow",
        config={"displaylogo": False, "responsive": True},
    )
    name = html.escape(title(report, MOST_PACKETS))
    parts = {
        "<html>": '<html lang="en">',
        "</head>": f"<title>{name}</title>{_HEAD}</head>",
        "<body>": f"<body><h1>{name}</h1><p>{_TOLD}</p>",
    }
    for mark, there in parts.items():
        page = page.replace(mark, there, 1)
    return page


def _figure(report: FlowReport) -> Any:
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    shown = drawn_transfers(report, MOST_PACKETS)
    figure = make_subplots(
        rows=2, cols=1, shared_xaxes=True, row_heights=[0.55, 0.45], vertical_spacing=0.06
    )
    for bars in page_bars(shown):
        figure.add_trace(go.Bar(hovertemplate=_HOVER, orientation="h", **bars), row=1, col=1)
    for curve in bandwidth_steps(shown):
        rates = [*curve.mb_per_s.tolist(), float(curve.mb_per_s[-1])]
        figure.add_trace(
            go.Scatter(
                x=[int(edge) / PS_PER_US for edge in curve.edges],
                y=rates,
                mode="lines",  # or curves of few steps alone would have dots
                name=f"{curve.band}, node {curve.node}",
                line={
                    "shape": "hv",
                    "color": BAND_SHADES[curve.band][0],
                    "dash": DASHES[curve.band],
                },
                hovertemplate="%{x} us: %{y:.1f} MB/s",
            ),
            row=2,
            col=1,
        )
    figure.update_layout(
        barmode="overlay",
        template="plotly_white",
        legend={"orientation": "h", "y": -0.12},
        font={"size": 14},
        height=760,
        margin={"l": 70, "r": 20, "t": 20},
    )
    figure.update_yaxes(categoryorder="array", categoryarray=list(reversed(BANDS)), row=1, col=1)
    figure.update_yaxes(title="MB/s, idle time included", rangemode="tozero", row=2, col=1)
    # Plotly would write 50,000 us as 50k.
    figure.update_xaxes(exponentformat="none", separatethousands=True)
    figure.update_xaxes(title="us", row=2, col=1)
    return figure


def page_bars(shown: NDArray[Any]) -> list[dict[str, Any]]:
    """What is drawn of the transfers ``shown``: one set of bars per band, shade and height."""
    found = []
    for band, name in enumerate(BANDS):
        mine = shown[shown["band"] == band]
        moving = receptions(shown) if band == NET_RCV else mine
        heights = [(moving, FULL)] if band != NET_RCV else [(mine, THIN), (moving, FULL)]
        for transfers, height in heights:
            for parity, shade in enumerate(BAND_SHADES[name]):
                chosen = transfers[transfers["packet"] % 2 == parity]
                if len(chosen):
                    found.append(_bars(chosen, name, shade, height))
    return found


def _bars(transfers: NDArray[Any], name: str, shade: str, height: float) -> dict[str, Any]:
    lasting = transfers["end"] - transfers["start"]
    # Hours of picoseconds are exact in double precision: 2**53 ps are two and a half hours.
    start, end, width = (
        (column / PS_PER_US).tolist() for column in (transfers["start"], transfers["end"], lasting)
    )
    rate = transfers["bytes"] * PS_PER_US / np.maximum(lasting, 1)
    kinds = ["control message" if control else "payload" for control in transfers["control"]]
    columns = (transfers["packet"].tolist(), kinds, transfers["bytes"].tolist(), start, end)
    return {
        "y": [name] * len(transfers),
        "base": start,
        "x": width,
        "width": height,
        "marker": {"color": shade, "line": {"width": 0}},
        "showlegend": False,
        "customdata": [list(row) for row in zip(*columns, rate.tolist(), strict=True)],
    }
