"""mdtrace ingest."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mdtrace.errors import Exit, UsageError

if TYPE_CHECKING:
    from mdtrace.tables.dataset import Dataset

_WORTH_WORKERS = 32_000_000  # bytes of input


def run(
    traces: Annotated[
        list[Path],
        typer.Argument(
            help="Trace files of one job, formats mixed as they come.", metavar="TRACE...", show_default=False
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Dataset folder to make. [default: named after the trace]",
            show_default=False,
        ),
    ] = None,
    add: Annotated[
        Path | None,
        typer.Option("--add", help="Add the traces to this dataset.", metavar="DATASET", show_default=False),
    ] = None,
    rank: Annotated[
        int | None, typer.Option("--rank", min=0, help="Rank of the one trace given.", show_default=False)
    ] = None,
    ranks: Annotated[
        list[str] | None,
        typer.Option(
            "--ranks",
            help="Rank of one trace, or of each of its processes (FILE=0,1); may be repeated.",
            metavar="FILE=N",
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            min=1,
            help="Processes to use. [default: all cores for large input]",
            show_default=False,
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing dataset.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 3 where a diagnostic has severity error.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
) -> None:
    """Read traces into a dataset.

    Nsight Systems exports (SQLite, or a parquetdir folder), PyTorch profiler JSON (plain or gzip) and Horovod
    timelines are told apart by their content. The dataset appears whole or not at all.

    [bold]Examples[/bold]

      mdtrace ingest run.sqlite

      mdtrace ingest job/*.pt.trace.json.gz timeline.json -o job.mdtrace

      mdtrace ingest late_rank.json.gz --add job.mdtrace --rank 7

    [bold]Exit codes[/bold]: 0 done · 1 failed · 2 usage, or no input could be read · 3 see --strict
    """
    if add is not None and (out is not None or overwrite):
        raise UsageError("--add goes with neither -o nor --overwrite", "give one of them")
    target = add or out or _default_name(traces)
    given = _given_ranks(traces, rank, ranks or [])

    from mdtrace.ingest.pool import Pool

    work = sum(_size(t) for t in traces)
    # Below this, starting workers costs more than they save.
    spare = (os.cpu_count() or 1) if work >= _WORTH_WORKERS else 1
    with Pool(jobs or spare) as pool:
        from mdtrace.build.job import build
        from mdtrace.commands.progress import progress

        with progress("Ingesting", work, pool.done, quiet=quiet):
            dataset = build(traces, target, ranks=given, add=add is not None, overwrite=overwrite, pool=pool)
    typer.echo(str(target))
    errors = _report(dataset, quiet=quiet)
    if strict and errors:
        raise typer.Exit(Exit.DIAGNOSTICS)


def _default_name(traces: list[Path]) -> Path:
    """`run.sqlite` → `run.mdtrace` here; several traces of one folder → that folder's name."""
    if len(traces) == 1:
        name = re.sub(r"(\.pt)?(\.trace)?(\.json|\.sqlite|\.db)?(\.gz)?$", "", _real(traces[0]).name)
        return Path((name or "run") + ".mdtrace")
    folders = {_real(t).parent for t in traces}
    if len(folders) > 1 or not next(iter(folders)).name:
        raise UsageError("the traces lie in several folders", "name the dataset with -o NAME.mdtrace")
    return Path(next(iter(folders)).name + ".mdtrace")


def _real(path: Path) -> Path:
    """Where links lead; of links in a circle (Path.resolve raises) the path itself."""
    return Path(os.path.realpath(path))


def _given_ranks(traces: list[Path], rank: int | None, ranks: list[str]) -> dict[Path, tuple[int, ...]]:
    if rank is not None:
        if len(traces) != 1:
            raise UsageError("--rank goes with one trace", "give --ranks FILE=N for each of several")
        return {traces[0]: (rank,)}
    given: dict[Path, tuple[int, ...]] = {}
    for text in ranks:
        name, _, numbers = text.rpartition("=")
        if not name or not re.fullmatch(r"\d{1,9}(,\d{1,9})*", numbers):
            raise UsageError(f"--ranks {text}: no FILE=N", "give FILE=N, or FILE=N,M of several processes")
        matches = [t for t in traces if t == Path(name) or t.name == name]
        if len(matches) != 1:
            what = f"--ranks {text}: {len(matches)} of the traces are called {name}"
            raise UsageError(what, "give FILE as it stands in the list of traces")
        given[matches[0]] = tuple(map(int, numbers.split(",")))
    return given


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # said when it is read


def _report(dataset: "Dataset", *, quiet: bool) -> int:
    """Say what became of the traces; returns the number of diagnostics of severity error."""
    from mdtrace.commands.output import count, note

    diagnostics = dataset.table("diagnostics", ["severity", "message"]).to_pylist()
    errors = [d for d in diagnostics if d["severity"] == "error"]
    if not quiet:
        sources = dataset.table("sources", ["events_stored", "events_skipped"]).to_pylist()
        stored, skipped = (sum(s[k] for s in sources) for k in ("events_stored", "events_skipped"))
        note(f"files: {len(sources)} · events stored: {count(stored)} · skipped: {count(skipped)}")
        for diagnostic in sorted(
            diagnostics, key=lambda d: ("error", "warning", "info").index(d["severity"])
        ):
            if diagnostic["severity"] != "info":
                note(f"{diagnostic['severity']}: {diagnostic['message']}")
    return len(errors)
