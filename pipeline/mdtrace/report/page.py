"""The page: one HTML file with style, scripts and data. Names from traces are text in it, never markup."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mdtrace import __version__
from mdtrace.plots import save
from mdtrace.report import summary, text
from mdtrace.report.facts import Facts
from mdtrace.report.finding import Finding
from mdtrace.report.findings import findings
from mdtrace.report.sections import sections


def page(facts: Facts, found: Sequence[Finding] | None = None) -> str:
    """The whole report as HTML.

    Args:
        found: findings; by default those of the facts.
    """
    return (
        _environment()
        .get_template("page.html")
        .render(
            name=facts.name,
            subtitle=summary.subtitle(facts),
            findings=findings(facts) if found is None else found,
            nothing=summary.nothing(facts),
            unit="a step" if facts.step_ns else "in the capture",
            cards=summary.cards(facts),
            roofs=summary.roofs(facts),
            sections=sections(facts),
            version=__version__,
            policy=save.POLICY,
            style=_style(),
            configs=save.configs(),
            scripts=save.scripts(),
            drawing=save.DRAW,
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("mdtrace.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["script_json"] = _script_json
    environment.filters["percent"] = text.percent
    environment.filters["duration"] = text.duration
    return environment


def _script_json(value: object) -> Markup:
    """JSON in which no tag can begin or end, so that a script element may hold it as it is."""
    return Markup(save.script_json(value))  # noqa: S704 - escaped for its place


@cache
def _style() -> str:
    return (files("mdtrace.report") / "templates" / "page.css").read_text("utf-8")
