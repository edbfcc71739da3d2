"""mdtrace export."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mdtrace.commands.options import DatasetArgument, RankOption, StepOption, TimeOption, filters

if TYPE_CHECKING:
    from mdtrace.export import Exported

_LARGE = 1_000_000_000  # bytes of JSON that a browser hardly holds
_WORDS = {
    "host": "host events",
    "launch": "API calls",
    "device": "device activities",
    "flow": "arrows from call to device",
    "collective": "collectives",
    "counter": "samples",
    "step": "steps",
    "layer": "runs of layers",
    "wait": "waits",
}


def run(
    dataset: DatasetArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Trace to write: .json or .json.gz.", show_default="DATASET.trace.json.gz"
        ),
    ] = None,
    rank: RankOption = None,
    step: StepOption = None,
    time: TimeOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
) -> None:
    """Write a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open.

    All ranks on one clock, as solved from their collectives; one process a rank, with its host
    threads, device streams, collectives and counters, arrows from call to kernel, and tracks of
    verdicts: steps and layers with what bounds them, and who waits for whom. Times count from the
    first event. Filters take what starts in them.

    [bold]Examples[/bold]

      mdtrace export job.mdtrace -o job.trace.json.gz

      mdtrace export job.mdtrace -o slow.json --rank 0,5 --step 7
    """
    from collections.abc import Callable

    from mdtrace.commands.progress import progress
    from mdtrace.export.trace import export, rows
    from mdtrace.tables.dataset import open_dataset

    opened = open_dataset(dataset)
    target = out or Path(f"{dataset.resolve().name.removesuffix('.mdtrace')}.trace.json.gz")
    done: list[Callable[[], int]] = []

    def so_far() -> int:
        return done[0]() if done else 0

    with progress("Exporting", max(1, rows(opened)), so_far, quiet=quiet):
        written = export(opened, target, filters(opened, rank=rank, step=step, time=time), done.append)
    typer.echo(str(target))
    if not quiet:
        _report(written)


def _report(written: "Exported") -> None:
    from mdtrace.commands.output import count, note, size

    parts = [f"{count(n)} {_WORDS[k]}" for k, n in written.events.items() if n]
    note(f"{size(written.size)}, {size(written.plain_size)} of JSON: {', '.join(parts) or 'no events'}")
    if written.valueless:
        note(f"{count(written.valueless)} samples without a value are left out")
    if written.apart > 1:
        note(f"{written.apart} clocks that cannot be compared: each starts at 0")
    if written.plain_size > _LARGE:
        note("a browser may not hold this: pick --rank, --step or --time, or use Perfetto's trace_processor")
