"""mdtrace schedule."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mdtrace.commands.options import Format, FormatOption, OutOption

if TYPE_CHECKING:
    from mdtrace.models.schedule import Schedule


def run(
    jobs: Annotated[Path, typer.Argument(help="TOML file of jobs.", metavar="JOBS.TOML", show_default=False)],
    cluster: Annotated[
        Path, typer.Argument(help="TOML file of the cluster.", metavar="CLUSTER.TOML", show_default=False)
    ],
    format: FormatOption = None,  # noqa: A002
    out: OutOption = None,
) -> None:
    """Job completion times and makespan where jobs are placed by the cluster's links, against blindly.

    Both serve jobs in the order they arrive, none overtakes. Blind: each GPU from the node with the most free
    ones. Topology-aware: the closest free GPUs; where a job would be done sooner on closer ones that running
    jobs give back, it waits for them. Jobs keep their GPUs and share no links.
    With --format, a row for each policy and job; times in s.

    [bold]Example[/bold]

      mdtrace schedule jobs.toml cluster.toml

    [bold]Jobs[/bold]: name, gpus, steps, arrival_s, and what a step takes: step_s by the worst class of
    links (alone: on one GPU); or the coefficients of mdtrace predict: constant_s, sample_s with batch, gb_s
    by class with gradient_bytes, hop_s by class with messages, gamma.

    {jobs}

    [bold]Cluster[/bold]

    {cluster}
    """
    from mdtrace.commands import output
    from mdtrace.models.schedule import POLICIES, simulate
    from mdtrace.models.schedule_files import read_cluster, read_jobs, table

    chosen = output.chosen(format, out)
    wanted, machines = read_jobs(jobs), read_cluster(cluster)
    schedules = [simulate(wanted, machines, policy) for policy in POLICIES]
    if chosen is Format.TABLE and out is None:
        _print(schedules)
    else:
        output.write_rows(table(schedules), chosen, out)


def _print(schedules: list["Schedule"]) -> None:
    from mdtrace.commands import output
    from mdtrace.commands.answer import print_rows
    from mdtrace.commands.output import Shown

    aware, blind = schedules
    rows = [
        {
            "job": a.job.name,
            "gpus": a.job.gpus,
            "arrival": a.job.arrival_s,
            "links": a.link or "one GPU",
            "blind_links": b.link or "one GPU",
            "step": a.step_s,
            "blind_step": b.step_s,
            "jct": a.jct_s,
            "blind_jct": b.jct_s,
            "ratio": b.jct_s / a.jct_s,
        }
        for a, b in zip(aware.jobs, blind.jobs, strict=True)
    ]
    columns: dict[str, Any] = {
        "job": Shown("job", right=False, wide=True),
        "gpus": Shown("GPUs"),
        "arrival": Shown("arrival", _seconds),
        "links": Shown("links", right=False, wide=True),
        "blind_links": Shown("blind", right=False, wide=True),
        "step": Shown("step", _seconds),
        "blind_step": Shown("blind", _seconds),
        "jct": Shown("JCT", _seconds),
        "blind_jct": Shown("blind", _seconds),
        "ratio": Shown("ratio", lambda r: f"{r:.2f}"),
    }
    print_rows(rows, columns, "Jobs, topology-aware beside blind (s)")
    output.print_table(
        [_figures("mean JCT", "mean_jct_s", schedules), _figures("makespan", "makespan_s", schedules)],
        {
            "what": Shown("", right=False),
            "aware": Shown("aware", _seconds),
            "blind": Shown("blind", _seconds),
            "ratio": Shown("ratio", lambda r: f"{r:.2f}"),
        },
        title=f"{len(aware.jobs)} jobs (s)",
    )


def _figures(title: str, name: str, schedules: list["Schedule"]) -> dict[str, Any]:
    aware, blind = (getattr(schedule, name) for schedule in schedules)
    return {"what": title, "aware": aware, "blind": blind, "ratio": blind / aware if aware else None}


def _seconds(time: float) -> str:
    return f"{time:.4g}" if time < 1000 else f"{time:.0f}"


def _help() -> str:
    """The help with the example files."""
    from mdtrace.models.schedule_example import CLUSTER, JOBS

    text = run.__doc__ or ""
    for name, example in (("{jobs}", JOBS), ("{cluster}", CLUSTER)):
        lines = [line.replace("[", r"\[") for line in example.splitlines() if line]
        text = text.replace(name, "\n    ".join(f"  {line}" for line in lines))
    return text


run.__doc__ = _help()
