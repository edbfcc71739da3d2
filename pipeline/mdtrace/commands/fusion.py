"""mdtrace fusion."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from mdtrace.commands.charts import DarkOption, PictureOption
from mdtrace.commands.options import Format, FormatOption
from mdtrace.commands.scaling import (
    BandwidthOption,
    CapOption,
    FusionOption,
    LatencyOption,
    NetworkOption,
    PerNodeOption,
    RunsArgument,
    options,
)

if TYPE_CHECKING:
    from mdtrace.models.fusion_study import Advice


WORTH = 0.01  # share of a step below which no advice is given


def run(
    datasets: RunsArgument,
    gpus: Annotated[
        int | None,
        typer.Option(
            "--gpus", min=2, help="For so many GPUs; by default those of the run.", show_default=False
        ),
    ] = None,
    buckets: Annotated[bool, typer.Option("--buckets", help="Show each bucket of each plan.")] = False,
    bandwidth: BandwidthOption = None,
    latency: LatencyOption = None,
    per_node: PerNodeOption = None,
    fusion: FusionOption = "recorded",
    cap: CapOption = None,
    network: NetworkOption = "ring",
    format: FormatOption = None,  # noqa: A002
    out: PictureOption = None,
    dark: DarkOption = False,
) -> None:
    """How gradients are packed into buckets, what better ones would gain, and the setting for it.

    Today's buckets, the best constant cap, the best buckets of all (exact), and MG-WFBP's greedy. With
    --format, rows with all columns; times in ns.

    [bold]Examples[/bold]

      mdtrace fusion job.mdtrace

      mdtrace fusion job.mdtrace --gpus 64 --buckets --format csv

      mdtrace fusion job.mdtrace -o buckets.html
    """
    from mdtrace.commands import charts, output
    from mdtrace.models.fusion_study import advise, table, timeline
    from mdtrace.tables.dataset import open_dataset

    picture, chosen = charts.chosen(format, out)
    wanted = options(bandwidth, latency, per_node, fusion, cap, network, ())
    advice = advise([open_dataset(path) for path in datasets], wanted, gpus)
    if picture is not None:
        from mdtrace.plots.scaling import fusion_timeline

        charts.write([fusion_timeline(timeline(advice))], picture, "Buckets of each plan", dark=dark)
        return
    if chosen is not Format.TABLE or out is not None:
        output.write_rows(timeline(advice) if buckets else table(advice), chosen, out)
        return
    _print(advice, table(advice).to_pylist())
    if buckets:
        _buckets(timeline(advice).to_pylist())


def _print(advice: "Advice", rows: list[dict[str, Any]]) -> None:
    from mdtrace.commands import output
    from mdtrace.commands.answer import unit
    from mdtrace.commands.output import Shown, count, duration, size
    from mdtrace.models.scaling_model import CAUTION

    if CAUTION in advice.notes:
        output.line(CAUTION, "bold")
    name, text = unit(rows, "step_ns")
    columns = {
        "plan": Shown("packed", right=False),
        "buckets": Shown("buckets", count),
        "largest_bytes": Shown("largest", size),
        "step_ns": Shown("step", text),
        "exposed_ns": Shown("exposed", text),
        "gain": Shown("gain", lambda share: f"{100 * share:+.1f} %"),
    }
    title = (
        f"{advice.gpus} GPUs, {len(advice.trace.sizes)} gradients, {advice.trace.sizes.sum() / 1e6:.2f} MB"
    )
    output.print_table(rows, columns, title=f"{title} ({name}; exposed: the exchange alone)")
    cost = advice.cost
    speed = f"{1 / cost.beta:.3g} GB/s" if cost.beta > 0 else "no limit to bandwidth"
    output.line(f"A bucket takes {duration(round(cost.alpha))} and its bytes at {speed} of payload.")
    if advice.measured_ns is not None:
        error = rows[0]["step_ns"] / advice.measured_ns - 1
        output.line(
            f"The run's steps took {text(advice.measured_ns)} {name} (median);"
            f" predicted with its own buckets {100 * error:+.1f} %."
        )
    output.line(f"Today: {advice.words}.")
    if max(row.gain for row in advice.rows) < WORTH:
        output.line(f"No other buckets save {100 * WORTH:.0f} % of a step: today's are good.")
    for row in advice.rows[1:3]:
        if row.setting and row.gain >= WORTH:
            output.line(f"For the {row.name}: {row.setting}")
    for note in advice.notes:
        if note != CAUTION:
            output.line(note)


def _buckets(rows: list[dict[str, Any]]) -> None:
    from mdtrace.commands.answer import print_rows, unit
    from mdtrace.commands.output import Shown, size

    name, text = unit(rows, "end_ns")
    columns = {
        "plan": Shown("packed", right=False),
        "bucket": Shown("bucket"),
        "gradients": Shown("gradients"),
        "first": Shown("first", right=False, wide=True),
        "last": Shown("last", right=False, wide=True),
        "bytes": Shown("size", size),
        "ready_ns": Shown("ready", text),
        "start_ns": Shown("start", text),
        "end_ns": Shown("end", text),
    }
    print_rows(rows, columns, f"Buckets ({name} after the exchange of the step before)")
