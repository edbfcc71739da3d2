"""A chart as a file: HTML that needs no network, SVG or PNG made without a browser, or its Vega-Lite JSON."""

import json
from functools import cache
from typing import Any

import altair as alt

from mdtrace.plots import theme
from mdtrace.plots.theme import Mode

_MANY = 1500  # marks from which on a canvas draws faster than SVG

# Nothing but what is in the page may load, whatever a name in a trace says.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
)


def spec(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """The chart as Vega-Lite, without the configuration that `theme.config` gives."""
    found: dict[str, Any] = chart.to_dict()
    found.pop("config", None)
    many = _marks(found) > _MANY
    found["usermeta"] = {"embedOptions": {"renderer": "canvas" if many else "svg"}}
    return found


def _marks(found: dict[str, Any]) -> int:
    return sum(len(rows) for rows in found.get("datasets", {}).values())


def _plain(chart: alt.TopLevelMixin, mode: Mode) -> dict[str, Any]:
    """For a picture: nothing to type into or click."""
    found = spec(chart)
    found["config"] = theme.config(mode)
    found["padding"] = 16
    return found


def png(chart: alt.TopLevelMixin, mode: Mode = "light", scale: float = 2) -> bytes:
    """The picture as PNG, `scale` pixels for each of the chart's."""
    import vl_convert

    made: bytes = vl_convert.vegalite_to_png(_plain(chart, mode), vl_version=_version(), scale=scale)
    return made


def svg(chart: alt.TopLevelMixin, mode: Mode = "light") -> str:
    """The picture as SVG."""
    import vl_convert

    made: str = vl_convert.vegalite_to_svg(_plain(chart, mode), vl_version=_version())
    return made


def vega_lite(chart: alt.TopLevelMixin) -> str:
    """Vega-Lite JSON, with the light configuration."""
    return json.dumps({**spec(chart), "config": theme.config("light")}, indent=1)


@cache
def scripts() -> str:
    """JavaScript that draws: Vega, Vega-Lite and Vega-Embed as vl-convert carries them; has `vegaEmbed`."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle(vl_version=_version())  # type: ignore[call-arg]  # its stub is stricter
    return bundle.replace("</script", "<\\/script")


def _version() -> str:
    """Vega-Lite's version as vl-convert names it."""
    return str(alt.SCHEMA_VERSION).lstrip("v").rsplit(".", 1)[0]


def script_json(value: object) -> str:
    """JSON that is safe inside a script element: no tag can begin or end in it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


# Draws every chart of the page, and again when the reader turns to dark or light.
DRAW = """
const night = matchMedia("(prefers-color-scheme: dark)");
const configs = JSON.parse(document.getElementById("configs").textContent);
async function draw() {
  for (const script of document.querySelectorAll("script.spec")) {
    const place = document.getElementById(script.dataset.place);
    const spec = JSON.parse(script.textContent);
    const config = configs[night.matches ? "dark" : "light"];
    const actions = { export: true, source: false, compiled: false, editor: false };
    const renderer = spec.usermeta.embedOptions.renderer;
    await vegaEmbed(place, spec, { config, actions, renderer });
    place.dataset.drawn = "yes";
  }
  document.body.dataset.drawn = "yes";
}
night.addEventListener("change", draw);
draw();
"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
body {{ margin: 24px; font: 14px Helvetica, Arial, sans-serif; background: #fff; color: #1f2328; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #15181d; color: #e6e8eb; }} }}
.vega-bindings {{ margin-top: 8px; }}
</style>
</head>
<body>
{places}
<script type="application/json" id="configs">{configs}</script>
<script>{scripts}</script>
<script>{draw}</script>
</body>
</html>
"""


def place(name: str, chart: dict[str, Any]) -> str:
    """The HTML of one chart: where it is drawn and what is drawn. `name`: an id of our own making."""
    return (
        f'<div class="chart" id="{name}"></div>\n'
        f'<script type="application/json" class="spec" data-place="{name}">{script_json(chart)}</script>'
    )


def configs() -> str:
    """Both configurations, for a script element."""
    return script_json({mode: theme.config(mode) for mode in ("light", "dark")})


def html(charts: list[alt.TopLevelMixin], title: str) -> str:
    """A page of charts. Light or dark as the reader's system is; zooms, picks and finds; no network."""
    from html import escape

    places = "\n".join(place(f"chart{n}", spec(chart)) for n, chart in enumerate(charts))
    return _PAGE.format(
        policy=POLICY,
        title=escape(title),
        places=places,
        configs=configs(),
        scripts=scripts(),
        draw=DRAW,
    )
