"""mdtrace batch."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mdtrace.commands.layers import HardwareOption
from mdtrace.errors import Exit

if TYPE_CHECKING:
    from mdtrace.batch.run import Result

_SHOWN = 20


def run(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Folder with a folder of traces for each job.", metavar="JOBS_DIR", show_default=False
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder for datasets, reports and index.", show_default=False),
    ],
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes to use: jobs at a time.")] = 1,
    hardware: HardwareOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
) -> None:
    """Ingest and report many jobs, and rank them by the time they lose.

    OUT gets a folder for each job with its dataset and report.html, and index.html, index.csv and
    index.parquet. A bad job does not stop the others; it is listed with the reason. Run again: jobs whose
    files (names, sizes, times of change), --hardware and mdtrace are the same are skipped, failed and
    interrupted ones are taken up again.

    Time lost is what all ranks together lose in a steady step: idle, plus the larger of exposed communication
    and waiting for the last rank of collectives.

    [bold]Example[/bold]

      mdtrace batch traces/ -o reports/ --jobs 4

    [bold]Exit codes[/bold]: 0 all jobs are reported · 1 any failed · 2 usage
    """
    from mdtrace.batch.index import NAME, write_index
    from mdtrace.batch.jobs import find_jobs
    from mdtrace.batch.run import Result, run_all
    from mdtrace.commands import output
    from mdtrace.hardware.table import choose

    choose(hardware)  # wrong for one, wrong for all
    found = find_jobs(folder, out, hardware)
    out.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []

    def told(result: Result) -> None:
        if not quiet:
            output.note(f"{len(results)} of {len(found)} {_line(result)}")

    try:
        run_all(found, results, at_once=jobs, hardware=hardware, told=told)
    finally:
        ended = {result.job.name for result in results}
        rows = write_index(out, results + [Result(job, None) for job in found if job.name not in ended])
    if not quiet:
        _print(rows.to_pylist())
    typer.echo(str(out / f"{NAME}.html"))
    if any(result.state is None or result.state.outcome != "done" for result in results):
        raise typer.Exit(Exit.FAILED)


def _line(result: "Result") -> str:
    if result.skipped:
        return f"{result.job.name}: nothing has changed"
    state = result.state
    if state is None or state.outcome != "done":
        return f"{result.job.name}: failed: {None if state is None else state.reason}"
    return f"{result.job.name}: done in {result.seconds:.1f} s"


def _print(rows: list[dict[str, Any]]) -> None:
    from mdtrace.commands import output
    from mdtrace.commands.output import Shown, count, duration, percent

    done = [row for row in rows if row["outcome"] == "done"]
    columns = {
        "place": Shown(""),
        "job": Shown("job", right=False, wide=True),
        "ranks": Shown("ranks", count),
        "span_ns": Shown("step", lambda ns: duration(round(ns))),
        "lost_ns": Shown("lost, all ranks", lambda ns: duration(round(ns))),
        "lost_share": Shown("lost", percent),
        "finding": Shown("first finding", right=False, wide=True),
    }
    shown = [row if row["basis"] == "steady steps" else {**row, "lost_ns": None} for row in done[:_SHOWN]]
    if shown:
        title = "Jobs by time lost in a step (without steps: after the others, by share of the capture)"
        output.print_table(shown, columns, title=title)
    if len(done) > _SHOWN:
        output.line(f"… and {len(done) - _SHOWN} more: all of them in the index")
    for row in rows:
        if row["outcome"] != "done":
            output.line(f"{row['job']}: {row['outcome']}: {row['reason'] or 'the run was ended'}")
