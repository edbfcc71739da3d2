"""mdtrace layers."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mdtrace.commands.options import (
    DatasetArgument,
    Format,
    FormatOption,
    LayerOption,
    OutOption,
    RankOption,
    StepOption,
    filters,
)

if TYPE_CHECKING:
    from mdtrace.metrics.engine import Filters
    from mdtrace.tables.dataset import Dataset

HardwareOption = Annotated[
    str | None,
    typer.Option(
        "--hardware",
        help="Roofs: an entry of the hardware table, a .toml file, or empirical (the best achieved in the "
        "data); by default as the devices are named.",
        metavar="NAME|FILE",
        show_default=False,
    ),
]


def run(
    dataset: DatasetArgument,
    depth: Annotated[
        int | None,
        typer.Option("--depth", min=0, help="Add layers deeper than this up to the one around them."),
    ] = None,
    phase: Annotated[
        Literal["forward", "backward", "optimizer"] | None, typer.Option("--phase", help="Only this phase.")
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Rows to print.")] = 20,
    rank: RankOption = None,
    step: StepOption = None,
    layer: LayerOption = None,
    hardware: HardwareOption = None,
    format: FormatOption = None,  # noqa: A002
    out: OutOption = None,
) -> None:
    """Which layers take the time, how fast they are, and what bounds each.

    Time is that of a layer's kernels and of its communication that no compute hides, summed over the steps
    that count. Efficiency is against the three roofs. With --format, all of the view layer_roofline.

    Bound is compute, memory or communication where that roof takes the longest; balanced where the two
    longest are within 5 %; latency where all three are under half of the time; straggler where waiting for
    other ranks exceeds the transfer; – where too little is known.

    [bold]Examples[/bold]

      mdtrace layers job.mdtrace

      mdtrace layers job.mdtrace --depth 2 --rank 0 --phase backward

      mdtrace layers job.mdtrace --hardware my.toml --format csv
    """
    from mdtrace.commands import output
    from mdtrace.metrics.engine import run as run_metric
    from mdtrace.tables.dataset import open_dataset

    chosen = output.chosen(format, out)
    opened = open_dataset(dataset)
    wanted = filters(opened, rank=rank, step=step, layer=layer)
    table = run_metric(opened, "layer_roofline", wanted, layer_depth=depth, hardware=hardware).table
    if phase is not None:
        import pyarrow.compute as pc

        table = table.filter(pc.equal(table.column("phase"), phase))
    if chosen is not Format.TABLE or out is not None:
        output.write_rows(table, chosen, out)
        return
    _print(table.to_pylist(), top, opened, wanted, hardware)


def _print(
    rows: Sequence[dict[str, Any]], top: int, dataset: "Dataset", wanted: "Filters", hardware: str | None
) -> None:
    from mdtrace.commands import output

    if not rows:
        output.note("no layer has device activity or operators in the steps asked for")
        return
    ranks = len({r["process_id"] for r in rows})
    layers = _over_ranks(rows, ranks)
    columns = _columns(layers[:top])
    title = "Layers" if ranks == 1 else f"Layers: mean of {ranks} ranks"
    shown = _named(layers[:top], room(layers[:top], columns))
    output.print_table(shown, columns, title=f"{title} ({columns['device_ns'].title}, {_span(rows)})")
    if len(layers) > top:
        output.note(f"{len(layers) - top} more rows: --top {len(layers)}")
    for text in _notes(rows, dataset, wanted, hardware):
        output.note(text)


def _over_ranks(rows: Sequence[dict[str, Any]], ranks: int) -> list[dict[str, Any]]:
    """A row for each layer and phase: mean times of the ranks, the bound that most of the time has."""
    groups: dict[tuple[str | None, str | None], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["layer"], row["phase"]), []).append(row)
    layers = [_mean(some, ranks) for some in groups.values()]
    whole = sum(r["device_ns"] for r in layers)
    for row in layers:
        row["share"] = row["device_ns"] / whole if whole else None
    return sorted(layers, key=lambda r: -r["device_ns"])


def _mean(some: Sequence[dict[str, Any]], ranks: int) -> dict[str, Any]:
    time, flops, size = (_sum(some, k) for k in ("device_ns", "flops", "bytes"))
    explained = [r["efficiency"] * r["device_ns"] for r in some if r["efficiency"] is not None]
    bounds: dict[str | None, int] = {}
    for row in some:
        bounds[row["bound"]] = bounds.get(row["bound"], 0) + row["device_ns"]
    exposed = _sum(some, "exposed_comm_ns")
    return {
        "layer": some[0]["layer"],
        "phase": some[0]["phase"],
        "device_ns": (time or 0) / ranks,
        "flops_per_s": flops / time * 1e9 if flops and time else None,
        "intensity": flops / size if flops and size else None,
        "bound": max(bounds, key=lambda b: bounds[b]),
        "efficiency": sum(explained) / time if explained and time else None,
        "exposed_comm_ns": exposed / ranks if exposed is not None else None,
    }


def _sum(rows: Sequence[dict[str, Any]], key: str) -> float | None:
    known = [r[key] for r in rows if r[key] is not None]
    return sum(known) if known else None


def room(rows: Sequence[dict[str, Any]], columns: Mapping[str, Any]) -> int:
    """Characters that the other columns leave for paths."""
    from mdtrace.commands.output import width

    others = {key: shown for key, shown in columns.items() if key != "name"}
    cells = (
        max([len(shown.title), *(len(shown.text(r[key])) for r in rows if r[key] is not None)])
        for key, shown in others.items()
    )
    return max(16, width() - sum(cells) - 3 * len(columns))


def _named(rows: Sequence[dict[str, Any]], room: int) -> list[dict[str, Any]]:
    """Rows with the end of each path: what tells layers apart stands there."""
    return [{**r, "name": path_end(r["layer"], room) if r["layer"] else "(no layer)"} for r in rows]


def path_end(path: str, room: int) -> str:
    """As many of a path's last parts as fit."""
    if len(path) <= room:
        return path
    kept = path[1 - room :]
    whole = kept.partition("/")[2]
    return f"…/{whole}" if whole and len(whole) > room // 2 else f"…{kept}"


def _columns(rows: Sequence[dict[str, Any]]) -> Mapping[str, Any]:
    from mdtrace.commands.answer import unit
    from mdtrace.commands.output import Shown, percent

    name, text = unit(rows, "device_ns")
    fast = any((r["flops_per_s"] or 0) >= 1e11 for r in rows)
    rate, scale = ("TFLOP/s", 1e12) if fast else ("GFLOP/s", 1e9)
    return {
        "name": Shown("layer", right=False, wide=True),
        "phase": Shown("phase", lambda p: PHASES[p], right=False),
        "device_ns": Shown(name, text),
        "share": Shown("share", percent),
        "flops_per_s": Shown(rate, lambda v: _digits(v / scale)),
        "intensity": Shown("FLOP/B", _digits),
        "bound": Shown("bound", right=False),
        "efficiency": Shown("eff.", percent),
        "exposed_comm_ns": Shown(f"comm {name}", text),
    }


PHASES = {"forward": "fwd", "backward": "bwd", "optimizer": "opt"}


def _digits(value: float) -> str:
    """Three digits, without an exponent where that is as short."""
    return f"{value:.0f}" if 1000 <= value < 1e6 else f"{value:.3g}"


def _notes(
    rows: Sequence[dict[str, Any]], dataset: "Dataset", wanted: "Filters", hardware: str | None
) -> list[str]:
    from mdtrace.metrics.engine import Filters
    from mdtrace.metrics.roofline import roofs_in_words
    from mdtrace.metrics.roofline import rows as rows_of

    roofs = rows_of(dataset, "hardware_roofs", Filters(ranks=wanted.ranks), hardware)
    main = max(rows, key=lambda r: r["flops"] or 0)
    texts = [_coverage(rows), roofs_in_words(roofs, main["dtype"])]
    if any(r["exposed_comm_ns"] for r in rows):
        texts.append("time is compute and communication that no compute hides (the last column)")
    if _alone(rows, dataset):
        texts.append("only one rank was captured: waiting for the others cannot be told from transfer")
    if any(r["shared"] for r in rows):
        texts.append("gradient buckets are shared out to the layers whose gradients they carry, by elements")
    above = sum((r["achieved_flops_per_s"] or 0) > (r["attainable_flops_per_s"] or math.inf) for r in rows)
    if above:
        texts.append(
            f"rows faster than their roofs: {above}, efficiency withheld; the roofs are too low for them "
            "(another element type, work that stays in cache, or a calibration of a busy machine)"
        )
    return texts


def _coverage(rows: Sequence[dict[str, Any]]) -> str:
    from mdtrace.commands.output import percent

    total = sum(r["compute_ns"] for r in rows) or 1
    known = sum((r["coverage"] or 0) * r["compute_ns"] for r in rows) / total
    named = sum(r["compute_ns"] for r in rows if r["layer"]) / total
    return f"FLOP and bytes known for {percent(known)} of compute time, layers for {percent(named)}"


def _span(rows: Sequence[dict[str, Any]]) -> str:
    steps = max(r["steps"] for r in rows)
    return f"sums over {steps} step{'s' if steps > 1 else ''}" if steps else "the whole capture: no steps"


def _alone(rows: Sequence[dict[str, Any]], dataset: "Dataset") -> bool:
    """There is communication, and of those who take part one rank only was captured."""
    worlds = dataset.table("processes", ["world_size"]).column("world_size").to_pylist()
    return len(worlds) == 1 and worlds[0] != 1 and any(r["comm_ns"] for r in rows)
