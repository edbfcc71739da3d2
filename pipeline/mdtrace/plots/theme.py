"""Colours and type: the palette of Okabe and Ito, which colour-blind eyes tell apart, light and dark."""

from typing import Any, Literal

Mode = Literal["light", "dark"]

# M. Okabe, K. Ito: Color Universal Design, 2008.
BLUE, GREEN, ORANGE = "#0072B2", "#009E73", "#E69F00"
SKY, PURPLE, VERMILLION, GREY = "#56B4E9", "#CC79A7", "#D55E00", "#8C8C8C"

BOUND_COLOURS: dict[str, str] = {
    "compute": BLUE,
    "memory": GREEN,
    "communication": ORANGE,
    "balanced": SKY,
    "latency": PURPLE,
    "straggler": VERMILLION,
    "not known": GREY,
}
TIME_COLOURS: dict[str, str] = {
    "compute": BLUE,
    "compute and communication": SKY,
    "exposed communication": ORANGE,
    "exposed memory": GREEN,
    "idle": "#B9B9B9",
}
SERIES = [BLUE, ORANGE, GREEN, PURPLE, VERMILLION, SKY, GREY]
SEQUENCE = "cividis"  # even steps of lightness, the same to colour-blind eyes

_INK = {
    "light": {
        "paper": "#ffffff",
        "text": "#1f2328",
        "quiet": "#656d76",
        "grid": "#e7e9ec",
        "line": "#3d444d",
    },
    "dark": {"paper": "#15181d", "text": "#e6e8eb", "quiet": "#9aa3ad", "grid": "#2b3038", "line": "#c3c9d0"},
}


def config(mode: Mode = "light") -> dict[str, Any]:
    """Vega-Lite configuration: what does not depend on a chart, in light or dark."""
    ink = _INK[mode]
    axis = {
        "labelColor": ink["quiet"],
        "titleColor": ink["text"],
        "gridColor": ink["grid"],
        "domainColor": ink["quiet"],
        "tickColor": ink["quiet"],
        "titleFontWeight": 500,
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titlePadding": 8,
    }
    return {
        "background": ink["paper"],
        "font": "Helvetica, Arial, sans-serif",
        "view": {"stroke": None},
        "axis": axis,
        "legend": {
            "labelColor": ink["text"],
            "titleColor": ink["text"],
            "titleFontWeight": 500,
            "symbolBaseFillColor": ink["quiet"],
            "symbolBaseStrokeColor": ink["quiet"],
            "labelLimit": 260,
        },
        "header": {"labelColor": ink["text"], "titleColor": ink["text"]},
        "title": {
            "color": ink["text"],
            "subtitleColor": ink["quiet"],
            "anchor": "start",
            "fontSize": 15,
            "fontWeight": 600,
            "subtitleFontSize": 12,
            "offset": 12,
        },
        "range": {"category": SERIES},
        "line": {"color": ink["line"]},
        "rule": {"color": ink["line"]},
        "text": {"color": ink["text"]},
        "style": {
            "roof": {"strokeWidth": 1.5},
            "ridge": {"color": ink["line"], "fill": ink["paper"], "strokeWidth": 1.5},
            "roof-name": {"color": ink["quiet"], "fontSize": 11},
            "name": {"fontSize": 11},
            "mark": {"stroke": ink["line"]},
            "begin": {"color": ink["text"]},
            "limit": {"strokeDash": [6, 4], "strokeWidth": 1.2},
        },
    }
