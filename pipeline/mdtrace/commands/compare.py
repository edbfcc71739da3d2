"""mdtrace compare."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mdtrace.commands.options import FormatOption, LayerOption, OutOption, RankOption, StepOption, filters
from mdtrace.errors import Exit, UsageError

if TYPE_CHECKING:
    from mdtrace.metrics.comparison import Comparison
    from mdtrace.metrics.comparison.side import Side

_PARTS = {
    "kernel": "Kernels, copies and sets",
    "operator": "Operators, by the device time they launch",
    "layer": "Layers",
    "collective": "Collectives (size: up to twice this)",
    "host": "Time of the host's own",
}
_QUIET = ("same", "noise", "small")


def run(
    base: Annotated[Path, typer.Argument(help="Dataset of the run to compare with.", metavar="BASE")],
    new: Annotated[Path, typer.Argument(help="Dataset of the run that is judged.", metavar="NEW")],
    threshold: Annotated[
        str, typer.Option("--threshold", help="Change that matters: 5%, or 0.05.", metavar="SHARE")
    ] = "5%",
    top: Annotated[int, typer.Option("--top", min=1, help="Rows of each kind to print.")] = 8,
    rank: RankOption = None,
    step: StepOption = None,
    layer: LayerOption = None,
    format: FormatOption = None,  # noqa: A002
    out: OutOption = None,
) -> None:
    """What changed from one run to another, per step, and what explains the change of the step time.

    Steady steps only, unless --step picks some. Amounts are sums over a step, their mean over
    devices, their median over steps. A change is noise where it is no larger than 3 median absolute
    deviations of a single step, both runs' combined, or where the steps of the two runs overlap
    much; small where it is below the threshold (step and buckets: of the step time; others: of their
    own time, or 0.1 % of the step time).

    Names are matched without template arguments, addresses, tile sizes, source lines and counters
    where they differ. With --layer, kernels, operators, layers and the host's time are those of the
    layers.

    [bold]Examples[/bold]

      mdtrace compare before.mdtrace after.mdtrace

      mdtrace compare main.mdtrace branch.mdtrace --threshold 2% --format json -o change.json

    [bold]Exit codes[/bold]: 0 no regression · 1 the step time, or a bucket of it (compute, exposed
    communication, exposed copies, idle), got worse by more than the threshold of the base's step
    time and more than noise; a bucket only where the step time did not get better by as much; with
    fewer than 3 steps on a side noise cannot be told, and the threshold alone decides · 2 cannot be
    compared
    """
    from mdtrace.commands import output
    from mdtrace.commands.options import Format
    from mdtrace.metrics.comparison import compare
    from mdtrace.tables.dataset import open_dataset

    chosen = output.chosen(format, out)
    share = _share(threshold)
    sides = open_dataset(base), open_dataset(new)
    found = compare(*sides, share, filters(*sides, rank=rank, step=step, layer=layer))
    if chosen is Format.TABLE:
        _show(found, (base, new), top)
    else:
        output.write_rows(found.arrow(), chosen, out)
    if found.regressions:
        raise typer.Exit(Exit.FAILED)


def _share(text: str) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(%?)\s*", text)
    value = float(match[1]) / (100 if match[2] else 1) if match else math.inf
    if not match or (not match[2] and value >= 1):
        raise UsageError(f"--threshold {text}: no share", "give 5%, or 0.05")
    return value


def _show(found: "Comparison", names: Sequence[Path], top: int) -> None:
    from mdtrace.commands.output import line

    for label, name, side in zip(("Base", "New"), names, (found.base, found.new), strict=True):
        line(f"{label}: {name.name}: {_about(side)}")
    for caveat in _caveats(found):
        line(caveat)
    line(_verdict(found), "bold")
    _overview(found)
    for part, title in _PARTS.items():
        _part(found, part, title, top)


def _about(side: "Side") -> str:
    from mdtrace.commands.answer import steady_words
    from mdtrace.metrics.filters import spans

    ranks = f"ranks {spans(side.ranks)}" if side.ranks else "rank unknown"
    world = f" of {', '.join(map(str, side.world_sizes))}" if side.world_sizes else ""
    if not side.steps:
        return f"{ranks}{world}; no steps are marked: the whole capture, warm-up included"
    reasons: dict[str, set[int]] = {}
    for number, why in side.left_out.items():
        reasons.setdefault(why, set()).add(number)
    return f"{ranks}{world}; {steady_words(set(side.steps), reasons)}"


def _caveats(found: "Comparison") -> list[str]:
    base, new = found.base, found.new
    said = []
    if base.world_sizes != new.world_sizes or base.ranks != new.ranks:
        differ = "world sizes" if base.world_sizes != new.world_sizes else "ranks"
        said.append(f"The {differ} differ: amounts are per device, and the work of a device may differ too.")
    if base.bases != new.bases:
        said.append(
            f"Accounted from {' and '.join(base.bases)} in the base, from"
            f" {' and '.join(new.bases)} in the new run: the buckets differ in meaning."
        )
    elif base.bases == ("host records",):
        said.append("No device activity: operators and the backend's records on the host are compared.")
    elif base.bases == ("step markers",):
        said.append("Neither devices nor operators were captured: steps and ranges of the host are compared.")
    if bool(base.steps) != bool(new.steps):
        said.append("Only one of the runs has steps: a step is compared with a whole capture.")
    if not found.noise_is_known:
        said.append("Fewer than 3 steps on a side: what is noise cannot be told.")
    return said


def _verdict(found: "Comparison") -> str:
    from mdtrace.commands.output import duration

    row = next(r for r in found.rows("step") if r["name"] == "step")
    what = "step time" if found.base.steps and found.new.steps else "whole capture"
    times = f"{what} {duration(row['base_ns'])} → {duration(row['new_ns'])}"
    if all(r["verdict"] == "same" for r in found.table.select(["verdict"]).to_pylist()):
        return f"No difference: {times}."
    noise = "" if row["noise_ns"] is None else f", noise ±{_percent(row['noise_ns'] / row['base_ns'])}"
    words = {"small": "below the threshold", "cannot tell": "noise cannot be told"}
    judged = words.get(row["verdict"], row["verdict"])
    also = [name for name in found.regressions if name != "step"]
    worse = f" Worse by more than the threshold: {', '.join(also)}." if also else ""
    return f"{times[0].upper()}{times[1:]}, {_signed(row['change'])}{noise}: {judged}.{worse}"


def _overview(found: "Comparison") -> None:
    """The step, its buckets, idle by cause, and what the medians leave unexplained."""
    from mdtrace.commands.answer import print_rows, unit
    from mdtrace.commands.output import line

    steps = [r for r in found.rows("step") if r["name"] == "step"]
    others = [r for r in found.rows("step") if r["name"] != "step"]
    buckets = [r for r in found.rows("bucket") if r["base_ns"] or r["new_ns"]]
    idle = [{**r, "name": f"  {r['name']}"} for r in found.rows("idle") if r["base_ns"] or r["new_ns"]]
    rows = [*steps, *buckets, *idle]
    if buckets:
        rows.append(_rest(steps[0], buckets))
    rows += others
    name, text = unit([*steps, *others], "base_ns")
    print_rows(
        [_with_text(r) for r in rows],
        _columns(text),
        f"Time per step ({name}; mean over devices, median over steps)",
    )
    if buckets:
        line("rest: the step less its parts; each row is a median of its own, and medians do not add up.")


def _rest(step: dict[str, Any], buckets: list[dict[str, Any]]) -> dict[str, Any]:
    """What the buckets do not explain: medians do not add up exactly."""
    rest = {k: step[k] - sum(b[k] for b in buckets) for k in ("base_ns", "new_ns", "change_ns")}
    return {
        **dict.fromkeys(step),
        "name": "rest",
        **rest,
        "contribution": rest["change_ns"] / step["base_ns"],
    }


def _part(found: "Comparison", part: str, title: str, top: int) -> None:
    """The rows of one kind that changed, the sum over all of them, and how many did not change."""
    from mdtrace.commands.answer import unit
    from mdtrace.commands.output import line, print_table

    rows = found.rows(part)
    changed = [r for r in rows if r["verdict"] not in _QUIET and not _negligible(r, found)]
    if not changed:
        return
    shown = [_with_text({**r, "name": _label(r)}) for r in changed[:top]]
    name, text = unit([{"ns": max(r["base_ns"], r["new_ns"])} for r in shown], "ns")
    print_table(shown, _columns(text, counts=True), title=f"{title} ({name} per step)")
    left = len(changed) - len(shown)
    more = f"{left} more changed (--top, --format csv); " if left else ""
    line(f"{more}{len(rows) - len(changed)} of {len(rows)} same, noise or small.{_total(found, part)}")


def _negligible(row: dict[str, Any], found: "Comparison") -> bool:
    """New or gone, but too small to mention."""
    step = next(r for r in found.rows("step") if r["name"] == "step")
    return row["matched"] in ("new", "gone") and abs(row["change_ns"]) <= 0.001 * step["base_ns"]


def _total(found: "Comparison", part: str) -> str:
    """How far the rows explain the change of the step."""
    from mdtrace.commands.output import duration

    rows = found.rows(part)
    if part not in ("kernel", "operator", "layer") or any(r["contribution_ns"] is None for r in rows):
        return ""
    step = next(r for r in found.rows("step") if r["name"] == "step")
    together = sum(r["contribution_ns"] for r in rows)
    idle = sum(r["change_ns"] for r in found.rows("bucket") if r["name"] == "idle")
    rest = step["change_ns"] - together - idle
    return (
        f" All together {_plus(together, duration)}, idle {_plus(idle, duration)}, rest"
        f" {_plus(rest, duration)}: the step's {_plus(step['change_ns'], duration)}."
    )


def _plus(ns: float, text: Any) -> str:
    return f"{'+' if ns > 0 else '−' if ns < 0 else ''}{text(abs(round(ns)))}"


def _label(row: dict[str, Any]) -> str:
    """A name as short as it can be and still tell what it is: kernels bare, of a path its end."""
    from mdtrace.commands.output import width
    from mdtrace.metrics.comparison.names import bare

    if row["name"] is None:
        return f"{row['phase']}: (no layer)" if row["phase"] else f"(no {row['part']})"
    if row["part"] != "layer":
        return bare(row["name"]) if row["part"] == "kernel" else str(row["name"])
    phase = f"{row['phase']}: " if row["phase"] else ""
    room = max(16, width() - _NUMBERS - len(phase))
    path = str(row["name"])
    return phase + (path if len(path) <= room else "…" + path[1 - room :])


_NUMBERS = 60  # columns that the numbers of a row take


def _columns(text: Any, *, counts: bool = False) -> dict[str, Any]:
    from mdtrace.commands.output import Shown

    return {
        "name": Shown("", right=False, wide=True),
        **({"counts": Shown("n")} if counts else {}),
        "base_ns": Shown("base", text),
        "new_ns": Shown("new", text),
        "change": Shown("change", _signed),
        "noise": Shown("noise", lambda share: f"±{_percent(share)}"),
        "contribution": Shown("of step", _signed),
        "verdict": Shown("", lambda verdict: _SHORT.get(verdict, verdict), right=False),
    }


_SHORT = {"regression": "worse", "improvement": "better", "cannot tell": "noise unknown"}


def _with_text(row: dict[str, Any]) -> dict[str, Any]:
    """A row with what is printed of several columns together."""
    noise = row["noise_ns"] / row["base_ns"] if row["noise_ns"] is not None and row["base_ns"] else None
    counts = [_number(row[k]) for k in ("base_count", "new_count") if row[k] is not None]
    return {**row, "noise": noise, "counts": " → ".join(dict.fromkeys(counts)) or None}


def _number(count: float) -> str:
    return f"{count:.4g}" if count < 1e5 else f"{count:.3g}"


def _signed(share: float) -> str:
    """+3.2 %, from tenfold on ×12.5."""
    if share >= 9:
        return f"×{1 + share:.3g}"
    return f"{'+' if share > 0 else ''}{_percent(share)}"


def _percent(share: float) -> str:
    return f"{100 * share + 0.0:.1f}%" if abs(share) < 10 else f"{100 * share:.3g}%"
