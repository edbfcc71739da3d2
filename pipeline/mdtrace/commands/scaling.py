"""mdtrace scaling."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mdtrace.commands.charts import DarkOption, PictureOption
from mdtrace.commands.options import Format, FormatOption, numbers
from mdtrace.errors import UsageError

if TYPE_CHECKING:
    from mdtrace.models.scaling_links import LinkFit
    from mdtrace.models.scaling_model import Options
    from mdtrace.models.scaling_study import Study

RunsArgument = Annotated[
    list[Path],
    typer.Argument(
        help="Dataset of the job; then others of it, with other numbers of GPUs or other buckets.",
        metavar="DATASET...",
        show_default=False,
    ),
]
BandwidthOption = Annotated[
    str | None,
    typer.Option(
        "--bandwidth",
        help="Of the slowest link on the ring, such as 100Gb/s or 12.5GB/s; by default fitted.",
        show_default=False,
    ),
]
LatencyOption = Annotated[
    str | None,
    typer.Option(
        "--latency", help="Of one hop, such as 20us; by default fitted to the messages.", show_default=False
    ),
]
PerNodeOption = Annotated[
    int | None,
    typer.Option("--per-node", min=1, help="GPUs of a host; by default as in the data.", show_default=False),
]
FusionOption = Annotated[
    str,
    typer.Option(
        "--fusion",
        help="What packs the gradients: recorded, ddp, horovod, threshold, none, one, greedy, best.",
    ),
]
CapOption = Annotated[
    float | None,
    typer.Option(
        "--cap-mb", min=0, help="Cap of --fusion ddp, horovod or threshold, MiB.", show_default=False
    ),
]
NetworkOption = Annotated[
    str, typer.Option("--network", help="How all-reduce goes: ring, tree or hierarchical.")
]


def run(
    datasets: RunsArgument,
    gpus: Annotated[
        str | None,
        typer.Option("--gpus", help="Numbers of GPUs to predict: 8,16,32.", show_default=False),
    ] = None,
    bandwidth: BandwidthOption = None,
    latency: LatencyOption = None,
    per_node: PerNodeOption = None,
    fusion: FusionOption = "recorded",
    cap: CapOption = None,
    network: NetworkOption = "ring",
    batch: Annotated[
        int | None,
        typer.Option("--batch", min=1, help="Samples per GPU and step, for throughput.", show_default=False),
    ] = None,
    format: FormatOption = None,  # noqa: A002
    out: PictureOption = None,
    dark: DarkOption = False,
) -> None:
    """Step time and scaling factor on more or fewer GPUs, what costs most, and how far it is to be trusted.

    From when each gradient is ready, what messages take, and what packs them into buckets. With --format, all
    columns; times in ns. Runs on other numbers of GPUs check the prediction: each is predicted without its
    own messages.

    [bold]Examples[/bold]

      mdtrace scaling job8.mdtrace --gpus 8,16,32,64

      mdtrace scaling job8.mdtrace job16.mdtrace --gpus 64 --batch 32

      mdtrace scaling job8.mdtrace --gpus 16 --per-node 8 --bandwidth 100Gb/s --latency 20us

      mdtrace scaling job8.mdtrace --gpus 8,16,32,64 -o scaling.html
    """
    from mdtrace.commands import charts, output
    from mdtrace.models.scaling_study import study, table
    from mdtrace.tables.dataset import open_dataset

    picture, chosen = charts.chosen(format, out)
    wanted = options(bandwidth, latency, per_node, fusion, cap, network, numbers(gpus, "gpus") or ())
    found = study([open_dataset(path) for path in datasets], wanted)
    rows = table(found, batch)
    if picture is not None:
        from mdtrace.plots.scaling import scaling_curve

        charts.write([scaling_curve(rows)], picture, "Scaling: predicted and measured", dark=dark)
        return
    if chosen is not Format.TABLE or out is not None:
        output.write_rows(rows, chosen, out)
        return
    _print(found, rows.to_pylist())


def options(
    bandwidth: str | None,
    latency: str | None,
    per_node: int | None,
    fusion: str,
    cap: float | None,
    network: str,
    gpus: tuple[int, ...],
) -> "Options":
    """The options as the model takes them.

    Raises:
        UsageError: a quantity or name that is none.
    """
    from mdtrace.models.scaling_links import Given
    from mdtrace.models.scaling_model import FUSIONS, MEBIBYTE, Options

    if fusion not in FUSIONS:
        raise UsageError(f"--fusion {fusion}: not known", f"one of {', '.join(FUSIONS)}")
    if network not in ("ring", "tree", "hierarchical"):
        raise UsageError(f"--network {network}: not known", "ring, tree or hierarchical")
    given = Given(_latency(latency), _bandwidth(bandwidth))
    bytes_cap = None if cap is None else cap * MEBIBYTE
    return Options(gpus, per_node, given, network, fusion, bytes_cap)  # type: ignore[arg-type]  # checked


def _bandwidth(text: str | None) -> float | None:
    """Bytes/s of a bandwidth in bits (b) or bytes (B) per second."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kMGT]?)(b|B|bit)(?:/s|ps)\s*", text)
    if not match or float(match[1]) <= 0:
        raise UsageError(f"--bandwidth {text}: not a bandwidth", "such as 100Gb/s, or in bytes 12.5GB/s")
    size = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[match[2]]
    return float(match[1]) * size / (1 if match[3] == "B" else 8)


def _latency(text: str | None) -> float | None:
    """ns of a time."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ns|us|µs|μs|ms|s)\s*", text)
    if not match:
        raise UsageError(f"--latency {text}: not a time", "such as 20us")
    return float(match[1]) * {"ns": 1.0, "ms": 1e6, "s": 1e9}.get(match[2], 1e3)


def _print(found: "Study", rows: list[dict[str, Any]]) -> None:
    from mdtrace.commands import output
    from mdtrace.commands.answer import unit
    from mdtrace.commands.output import Shown, count
    from mdtrace.models.scaling_model import CAUTION

    if CAUTION in found.notes:
        output.line(CAUTION, "bold")
    name, text = unit(rows, "step_ns")
    columns = {
        "gpus": Shown("GPUs", count),
        "hosts": Shown("hosts", count),
        "step_ns": Shown("step", text),
        "scaling_factor": Shown("factor", lambda share: f"{share:.3f}"),
        "speed_up": Shown("speed-up", lambda factor: f"{factor:.2f}"),
        "samples_per_s": Shown("samples/s", lambda rate: f"{rate:.4g}"),
        "measured_ns": Shown("measured", text),
        "error": Shown("error", _signed),
        "run": Shown("run", right=False, wide=True),
        "costs_most": Shown("costs most", right=False),
    }
    if all(row["samples_per_s"] is None for row in rows):
        del columns["samples_per_s"]
    if any(row["hosts"] is None for row in rows):
        del columns["hosts"]
    output.print_table(rows, columns, title=f"Predicted steps ({name}), scaling factor and speed-up")
    _costs(rows, name, text)
    for reason in dict.fromkeys(row["reason"] for row in rows if row["reason"]):
        numbers_ = ", ".join(str(row["gpus"]) for row in rows if row["reason"] == reason)
        output.line(f"Not predicted for {numbers_} GPUs: {reason}.")
    for line in basis(found):
        if line != CAUTION:
            output.line(line)


def _costs(rows: list[dict[str, Any]], name: str, text: Any) -> None:
    from mdtrace.commands import output
    from mdtrace.commands.output import Shown, count

    # Of measured numbers of GPUs, the first job's alone.
    shown = [row for row in rows if row["saved_overlap_ns"] is not None and row["fitted"] in (None, True)]
    columns = {
        "gpus": Shown("GPUs", count),
        "saved_latency_ns": Shown("no latency", text),
        "saved_bandwidth_ns": Shown("endless bandwidth", text),
        "saved_buckets_ns": Shown("best buckets", text),
        "saved_overlap_ns": Shown("full overlap", text),
        "saved_imbalance_ns": Shown("no slow rank", text),
    }
    if shown:
        output.print_table(shown, columns, title=f"What a step would save with … ({name})")


def basis(found: "Study") -> list[str]:
    """What the figures were fitted on, how well they hold, and what to know about them."""
    lines = [f"Gradients packed as {found.fusion}."]
    lines += [_fitted(found, link) for link in found.links.values()]
    trace, job = found.jobs[0].trace, found.jobs[0].name
    if trace is not None:
        what = "buckets" if trace.origin == "buckets" else "gradients"
        left = f" ({trace.left_out} left out)" if trace.left_out else ""
        lines.append(
            f"{job}: {len(trace.sizes)} {what}, {trace.sizes.sum() / 1e6:.2f} MB, ready as told by"
            f" {_ORIGINS[trace.origin]}, from {len(trace.steps)} steps{left}; compute alone"
            f" {found.compute_ns / 1e6:.2f} ms."
        )
    if found.held_out_steps is not None:
        lines.append(
            f"Held-out steps: predicted from every second one, the others come out"
            f" {_signed(found.held_out_steps)}."
        )
    if found.held_out_jobs is not None:
        median, most, number = found.held_out_jobs
        lines.append(
            f"Held-out runs: {number}, median error {100 * median:.1f} %, largest {100 * most:.1f} %."
        )
    if found.held_out_steps is None and found.held_out_jobs is None:
        lines.append("Nothing is held out: one step, and no further run. The error is not known.")
    return [*lines, *found.notes]


_ORIGINS = {
    "device": "the device's kernels",
    "host": "the host's operators",
    "ticks": "readiness ticks",
    "negotiation": "negotiations",
    "buckets": "the buckets' own launches",
}


def _fitted(found: "Study", link: "LinkFit") -> str:
    from mdtrace.commands.output import duration

    speed = link.link.bytes_per_s
    figures = (
        f"latency {duration(round(link.link.latency_ns))}, bandwidth"
        f" {'without limit' if speed is None else f'{speed / 1e9:.3g} GB/s'}"
    )
    where = {"one host": "inside a host", "between hosts": "between hosts"}.get(
        link.place, "of unknown hosts"
    )
    if link.fitted is None:
        return f"Links {where}: {figures}, as given."
    names = ", ".join(_traced(found)[i] for i in link.jobs)
    if not link.known:
        return (
            f"Links {where}: the messages of {names} have all about one size, so that latency and bandwidth"
            " cannot be told apart."
        )
    return (
        f"Links {where}: {figures}, fitted to {link.fitted.count} messages of {names}"
        f" (median error {100 * link.fitted.error:.1f} %)."
    )


def _traced(found: "Study") -> list[str]:
    return [job.name for job in found.jobs if job.trace is not None]


def _signed(share: float) -> str:
    return f"{100 * share:+.1f} %"
