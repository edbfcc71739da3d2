"""mdtrace predict."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mdtrace.commands.charts import DarkOption, PictureOption
from mdtrace.commands.options import Format, FormatOption, numbers
from mdtrace.errors import UsageError

if TYPE_CHECKING:
    from mdtrace.models.topology_predict import Study
    from mdtrace.models.topology_runs import Facts

DatasetsArgument = Annotated[
    list[Path],
    typer.Argument(
        help="Datasets of one job, run on several placements or batches.",
        metavar="DATASET...",
        show_default=False,
    ),
]


def run(
    datasets: DatasetsArgument,
    gpus: Annotated[
        str, typer.Option("--gpus", help="Numbers of GPUs to predict: 16 or 16,32.", show_default=False)
    ],
    per_node: Annotated[
        int | None,
        typer.Option(
            "--per-node",
            min=1,
            help="GPUs of a node, also of runs whose hosts are not recorded; by default the most of a run.",
            show_default=False,
        ),
    ] = None,
    batch: Annotated[
        float | None,
        typer.Option(
            "--batch",
            min=0,
            help="Samples per GPU and step to predict for; by default that of the runs.",
            show_default=False,
        ),
    ] = None,
    batches: Annotated[
        str | None,
        typer.Option(
            "--batches",
            help="Samples per GPU and step of each dataset, in order: 32,32,64; by default the first"
            " dimension of a step's first input.",
            show_default=False,
        ),
    ] = None,
    topology: Annotated[
        Path | None,
        typer.Option(
            "--topology",
            help="TOML file with the classes of links; by default inside a node, between nodes.",
            show_default=False,
        ),
    ] = None,
    format: FormatOption = None,  # noqa: A002
    out: PictureOption = None,
    dark: DarkOption = False,
) -> None:
    """Step time and throughput of a data-parallel job on a placement not yet run.

    From runs of the job on other placements: T = θ0 + θ1·batch + Σ θ_p·V_p, where V_p = 2(n−1)/n·S bytes pass
    the worst class of links on the ring; also with overlap of compute and exchange, and with a latency for
    each class, where the runs show that it predicts better. Each placement of the runs is predicted without
    its runs; that error is printed. Refused (exit code 2) where the runs do not identify the answer.

    [bold]Examples[/bold]

      mdtrace predict job1.mdtrace job4.mdtrace job8.mdtrace --gpus 16 --per-node 8

      mdtrace predict job*.mdtrace --gpus 16,32 --batch 64 --topology topo.toml --format csv

    [bold]Topology file[/bold]

    {example}
    """
    from mdtrace.commands import charts, output
    from mdtrace.models.topology_predict import predict
    from mdtrace.models.topology_table import table

    picture, chosen = charts.chosen(format, out)
    asked_gpus = numbers(gpus, "gpus") or ()
    if not asked_gpus or min(asked_gpus) < 1:
        raise UsageError(f"--gpus {gpus}: a number of GPUs is 1 or more", "give --gpus 16 or 16,32")
    facts, links = _read(datasets, topology, _batches(batches))
    runs, asked = _placed(facts, asked_gpus, per_node, batch)
    study = predict(runs, asked, links)
    if picture is not None:
        from mdtrace.plots.scaling import predicted_measured

        rows = table(study)
        points = rows.rename_columns(["name" if c == "run" else c for c in rows.column_names])
        title = "Predicted (held out) against measured steps"
        charts.write([predicted_measured(points)], picture, title, dark=dark)
    elif chosen is Format.TABLE and out is None:
        _print(study, facts)
    else:
        output.write_rows(table(study), chosen, out)


def _help() -> str:
    """The help with the example file."""
    from mdtrace.models.topology_example import EXAMPLE

    lines = [line.replace("[", r"\[") for line in EXAMPLE.splitlines() if line]
    return (run.__doc__ or "").replace("{example}", "\n    ".join(f"  {line}" for line in lines))


def _batches(text: str | None) -> list[float] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"\d{1,12}(\.\d{1,6})?", part) for part in parts):
        raise UsageError(f"--batches {text}: not a list of numbers", "give --batches 32,32,64")
    return [float(part) for part in parts]


def _read(paths: list[Path], file: Path | None, batches: list[float] | None) -> tuple[list["Facts"], Any]:
    from mdtrace.models.topology_files import read_topology
    from mdtrace.models.topology_runs import Known, default_topology, known_of, name_of, read
    from mdtrace.tables.dataset import open_dataset

    links, entries = read_topology(file) if file is not None else (None, {})
    stated = {name: Known(e.gpus, e.nodes, e.batch) for name, e in entries.items()}
    opened = [open_dataset(path) for path in paths]
    known = known_of([name_of(dataset) for dataset in opened], stated, batches)
    facts = [read(dataset, more) for dataset, more in zip(opened, known, strict=True)]
    return facts, links or default_topology(facts)


def _placed(facts: list["Facts"], gpus: tuple[int, ...], per_node: int | None, batch: float | None) -> Any:
    from mdtrace.models.topology_runs import placed, wanted

    runs = placed(facts, per_node)
    return runs, wanted(runs, gpus, per_node, batch)


def _print(study: "Study", facts: list["Facts"]) -> None:
    from mdtrace.commands import output
    from mdtrace.commands.answer import unit
    from mdtrace.commands.output import Shown, count, percent
    from mdtrace.models.topology_table import table

    rows = table(study).to_pylist()
    name, text = unit(rows, "predicted_ns")
    shared = {
        "gpus": Shown("GPUs", count),
        "nodes": Shown("nodes", count),
        "batch": Shown("batch", lambda b: f"{b:g}"),
        "link": Shown("worst links", right=False, wide=True),
        "predicted_ns": Shown("step", text),
    }
    asked = shared | {
        "compute_ns": Shown("compute", text),
        "exchange_ns": Shown("exchange", text),
        "samples_per_s": Shown("samples/s", lambda rate: f"{rate:.4g}"),
    }
    runs = {"run": Shown("run", right=False, wide=True)} | shared | {
        "measured_ns": Shown("measured", text),
        "predicted_ns": Shown("held out", text),
        "accuracy": Shown("accuracy", percent),
        "fitted_ns": Shown("fitted", text),
    }  # fmt: skip
    output.print_table([r for r in rows if r["run"] is None], asked, title=f"Predicted ({name})")
    output.print_table(
        [r for r in rows if r["run"] is not None],
        runs,
        title=f"Runs, each predicted without those on its placement ({name})",
    )
    _print_model(study)
    for line in basis(study, facts):
        output.line(line)


def _print_model(study: "Study") -> None:
    from mdtrace.commands import output
    from mdtrace.commands.output import Shown
    from mdtrace.models.topology_table import coefficients

    rows = coefficients(study).to_pylist()
    columns = {
        "coefficient": Shown("coefficient", right=False, wide=True),
        "value": Shown("value", lambda v: f"{v:.4g}"),
        "unit": Shown("unit", right=False),
        "runs": Shown("runs"),
        "meaning": Shown("meaning", right=False, wide=True),
    }
    output.print_table(rows, columns, title="Coefficients, and in how many runs each counts")


def basis(study: "Study", facts: list["Facts"]) -> list[str]:
    """What the answer was fitted on, how well it holds, and what to know about it."""
    steps = [f.steps for f in facts]
    placements = len({(m.run.placement.gpus, m.run.placement.nodes) for m in study.runs})
    gamma = f", γ = {study.model.gamma:.2f}" if study.model.overlap else ""
    best = f", the best of {study.tried} forms" if study.tried > 1 else ""
    lines = [
        f"Fitted on {_many(len(study.runs), 'run')} on {_many(placements, 'placement')}, each by the median"
        f" of its steady steps ({min(steps)} to {max(steps)}), relative errors counting:"
        f" {study.form.text}{gamma}{best}."
    ]
    if study.held_out is not None:
        mean, most, number = study.held_out
        lines.append(
            f"Held-out error: {100 * mean:.1f} % on average, {100 * most:.1f} % at most, over {number} runs"
            f" (accuracy {100 * (1 - mean):.1f} %)."
        )
    lines += [
        f"{m.run.name} is not predicted without its placement: {m.held_out.reason}."
        for m in study.runs
        if m.held_out.reason is not None
    ]
    return lines + list(study.notes)


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


run.__doc__ = _help()
