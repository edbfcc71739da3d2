"""mdtrace report."""

from pathlib import Path
from typing import Annotated

import typer

from mdtrace.commands.layers import HardwareOption
from mdtrace.commands.options import DatasetArgument


def run(
    dataset: DatasetArgument,
    hardware: HardwareOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="HTML file; by default beside the dataset: job.report.html for job.mdtrace.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """The post-mortem of a job as one HTML page: what to try first, and the figures behind it.

    It works offline, prints, and follows the reader's light or dark. Each figure says what part of the time
    it rests on, and the SQL that gives it.

    [bold]Examples[/bold]

      mdtrace report job.mdtrace

      mdtrace report job.mdtrace --hardware my.toml -o report.html
    """
    from mdtrace.commands import charts, output
    from mdtrace.report.facts import read
    from mdtrace.report.findings import findings
    from mdtrace.report.page import page
    from mdtrace.tables.dataset import open_dataset

    opened = open_dataset(dataset)
    target = out or dataset.resolve().with_suffix(".report.html")
    facts = read(opened, hardware)
    found = findings(facts)
    content = page(facts, found).encode()
    charts.write_whole(target, content)
    for finding in found[:3]:
        output.line(f"up to {output.percent(finding.gain)}: {finding.title}")
    output.note(f"{target}: {output.size(len(content))}, {len(found)} findings")
