"""The section on what would change the job: replay with ideal durations, fusion plans, more GPUs."""

from typing import Any

from mdtrace.plots.heat import slowdown_heat
from mdtrace.plots.scaling import fusion_timeline, scaling_curve
from mdtrace.plots.values import Size
from mdtrace.report.blocks import Block, Column, Missing, Text, figure, rows
from mdtrace.report.facts import Facts
from mdtrace.report.text import count, digits, duration, percent, sentence, size

_WIDE = Size(760, 360)


def changes(facts: Facts) -> list[Block]:
    """What each model says, or why it refuses."""
    return [*_replay(facts), *_fusion(facts), *_scaling(facts)]


def _refused(facts: Facts, model: str, what: str) -> list[Block]:
    if model not in facts.outlook.refused:
        return []
    why, hint = facts.outlook.refused[model]
    return [Missing(f"{what}: {why}", hint)]


_OPERATIONS = (
    Column("op_type", "operation", right=False),
    Column("slowdown", "slowdown by it alone", lambda value: f"{value:.3f}"),
    Column("without_ns", "step with it ideal", duration),
    Column("work_ns", "work a step", duration),
    Column("ideal_work_ns", "ideal", duration),
)


def _replay(facts: Facts) -> list[Block]:
    found = facts.outlook.rows("job")
    if not found:
        return _refused(facts, "whatif", "no replay")
    job = found[0]
    measured = duration(job["measured_ns"])
    coverage = f"replay of {job['steps']} steps, {percent(job['error'])} off the measured {measured}"
    blocks: list[Block] = [Text(_slowdown(job))]
    if job["slowdown"] > 1.01 and facts.outlook.rows("heat"):
        chart = slowdown_heat(facts.outlook.tables["heat"], _WIDE)
        blocks.append(figure("slowdown-heat", chart, "mdtrace whatif DATASET --format csv", coverage))
    table = facts.outlook.rows("operations")[:12]
    command = "mdtrace whatif DATASET --by operation"
    return [*blocks, rows("By type of operation", table, _OPERATIONS, command, coverage, folded=True)]


def _slowdown(job: Any) -> str:
    """S and who explains it, in words."""
    if job["slowdown"] < 1.01:
        return "Operations of a kind take equally long on all ranks and steps, within 1 % of a step."
    text = (
        f"With every operation as fast as its mean over ranks and steps, a step would take "
        f"{duration(job['ideal_ns'])}: the job is {job['slowdown']:.3f} times slower, "
        f"{percent(job['waste'])} of its time is lost to uneven durations."
    )
    if job["worst_workers"] is not None:
        text += f" The slowest 3 % of the workers explain {percent(job['worst_workers'])} of that."
    return text


_PLANS = (
    Column("plan", "plan", right=False),
    Column("buckets", "buckets", count),
    Column("largest_bytes", "largest", size),
    Column("step_ns", "step", duration),
    Column("exposed_ns", "exposed", duration),
    Column("gain", "gain", percent),
    Column("setting", "setting", right=False),
)


def _fusion(facts: Facts) -> list[Block]:
    plans = facts.outlook.rows("fusion")
    if not plans:
        return _refused(facts, "fusion", "no fusion plans")
    command, coverage = "mdtrace fusion DATASET", "; ".join(facts.outlook.words["fusion"])
    chart = fusion_timeline(facts.outlook.tables["buckets"], _WIDE)
    return [
        figure("fusion", chart, command, coverage),
        rows("Plans for gradient buckets", plans, _PLANS, command, coverage),
    ]


_SCALES = (
    Column("gpus", "GPUs", count),
    Column("hosts", "hosts", count),
    Column("step_ns", "step", duration),
    Column("measured_ns", "measured", duration),
    Column("error", "error", percent),
    Column("scaling_factor", "scaling factor", percent),
    Column("speed_up", "speed-up", digits),
    Column("costs_most", "costs most", right=False),
    Column("reason", "not predicted because", right=False),
)


def _scaling(facts: Facts) -> list[Block]:
    found = facts.outlook.rows("scaling")
    if not found:
        return _refused(facts, "scaling", "no prediction for other numbers of GPUs")
    command = "mdtrace scaling DATASET --gpus " + ",".join(str(row["gpus"]) for row in found)
    words = facts.outlook.words["scaling"]
    blocks: list[Block] = [Text(sentence("; ".join(words)))] if words else []
    if sum(row["step_ns"] is not None for row in found) > 1:
        chart = scaling_curve(facts.outlook.tables["scaling"], _WIDE)
        blocks.append(figure("scaling", chart, command, "a model of this run: see mdtrace scaling --help"))
    return [*blocks, rows("On other numbers of GPUs", found, _SCALES, command, "; ".join(words))]
