"""Command line: `python sample_traces/simulate OUT`."""

import argparse
import gc
import sys
from dataclasses import replace
from pathlib import Path

if not __package__:  # run as a folder: the package lies beside it, not on the path
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from simulate import (  # fmt: skip
    CAUSES,
    Config,
    Job,
    Straggler,
    can_horovod,
    job,
    write_horovod,
    write_kineto,
    write_nsys,
    write_truth,
)

UNITS = {"": 1_000_000, "ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
FORMATS = ("kineto", "nsys", "horovod")
EVENTS_A_STEP, EVENTS_A_LAYER = 40, 60  # of one rank, in the profiler's traces

EPILOG = """examples:
  python sample_traces/simulate /tmp/job
  python sample_traces/simulate /tmp/job --straggler 5 --delay 3ms --cause compute
  python sample_traces/simulate /tmp/job --ranks 16 --gpus-per-host 8 --strategy fsdp
  python sample_traces/simulate /tmp/job --ranks 8 --tensor 2 --pipeline 2 --formats kineto,nsys
  python sample_traces/simulate /tmp/big --big 1 --formats kineto

OUT then holds kineto/rank<r>.pt.trace.json.gz, nsys/node<h>.sqlite, horovod/timeline.json and truth.json:
who was late and by how much, the hosts' clocks, every collective, where each rank's time went.
"""


def duration_ns(text: str) -> int:
    """Read `3ms`, `250us`, `0.01s`; a plain number is ms.

    Raises:
        argparse.ArgumentTypeError: no duration.
    """
    unit = next((unit for unit in ("ns", "us", "ms", "s") if text.endswith(unit)), "")
    try:
        return round(float(text.removesuffix(unit)) * UNITS[unit])
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: write 3ms, 250us or 0.01s") from None


def numbers(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(","))


def formats(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    unknown = sorted(set(names) - set(FORMATS))
    if unknown:
        raise argparse.ArgumentTypeError(
            f"no such format: {', '.join(unknown)}; there are {', '.join(FORMATS)}"
        )
    return names


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python sample_traces/simulate",
        usage="%(prog)s OUT [options]",
        description="Simulate a training job on GPUs and write its traces, with the truth beside them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("out", type=Path, metavar="OUT", help="folder to write; it must not exist or must be empty")
    add("--formats", type=formats, help="kineto, nsys, horovod, with commas (default: all that can be)")
    _add_job(made.add_argument_group("the job"))
    _add_fault(made.add_argument_group("the fault"))
    _add_machines(made.add_argument_group("the machines"))
    _add_files(made.add_argument_group("the files"))
    return made


def _add_job(group: "argparse._ArgumentGroup") -> None:
    base, add = Config(), group.add_argument
    add("--ranks", type=int, default=base.ranks, help="GPUs, one process each (default %(default)s)")
    add("--gpus-per-host", type=int, default=base.gpus_per_host, help="ranks on a host (default %(default)s)")
    add("--steps", type=int, default=base.steps, help="training steps (default %(default)s)")
    add("--layers", type=int, default=base.layers, help="Linear and ReLU pairs (default %(default)s)")
    add("--width", type=int, default=base.width, help="features of the widest layer (default %(default)s)")
    add("--tokens", type=int, default=base.tokens, help="batch of a rank (default %(default)s)")
    add("--strategy", choices=("ddp", "fsdp"), default=base.strategy, help="(default %(default)s)")
    add("--tensor", type=int, default=base.tensor, help="ranks that share a layer (default %(default)s)")
    add("--pipeline", type=int, default=base.pipeline, help="stages (default %(default)s)")
    add("--microbatches", type=int, default=base.microbatches, help="in a pipeline (default %(default)s)")
    fusions = ("ddp", "threshold", "none", "one")
    add("--fusion", choices=fusions, default=base.fusion, help="gradient buckets (default %(default)s)")
    add("--bucket-mb", type=float, default=base.bucket_bytes / 2**20, help="MiB (default %(default)s)")
    add("--seed", type=int, default=base.seed, help="same seed, same job (default %(default)s)")


def _add_fault(group: "argparse._ArgumentGroup") -> None:
    add = group.add_argument
    add("--straggler", type=int, metavar="RANK", help="rank that is late in every step (default: none)")
    add("--delay", type=duration_ns, default="3ms", help="lost in a step: 3ms, 250us (default %(default)s)")
    add("--cause", choices=CAUSES, default="host", help="what it loses it to (default %(default)s)")


def _add_machines(group: "argparse._ArgumentGroup") -> None:
    add = group.add_argument
    add("--offsets-ms", type=numbers, metavar="MS,…", help="clock of each host ahead of true time")
    add("--drifts-ppm", type=numbers, metavar="PPM,…", help="how much faster each host's clock runs")
    links = ("nvlink", "pcie", "net")
    add("--intra", choices=links, default="nvlink", help="links inside a host (default %(default)s)")
    add("--inter", choices=links, default="net", help="links between hosts (default %(default)s)")


def _add_files(group: "argparse._ArgumentGroup") -> None:
    add = group.add_argument
    add("--report-per-rank", action="store_true", help="nsys: one report for each rank, not for each host")
    add("--cached", action="store_true", help="horovod: response cache on, no ticks after the first step")
    add("--plant-secrets", action="store_true", help="nsys: an environment, user and paths to look for")
    add("--big", type=float, metavar="MILLION", help="about so many million events, by taking more steps")


def config(arguments: argparse.Namespace) -> Config:
    """The job that the arguments describe.

    Raises:
        ValueError: it cannot be simulated.
    """
    names = ("ranks", "gpus_per_host", "steps", "layers", "width", "tokens", "strategy", "tensor", "pipeline")
    more = ("microbatches", "fusion", "seed", "offsets_ms", "drifts_ppm", "intra", "inter")
    found = Config(**{name: getattr(arguments, name) for name in names + more})
    late = arguments.straggler
    if late is not None:
        found = replace(found, stragglers=(Straggler(late, arguments.delay, arguments.cause),))
    if arguments.big is not None:
        events = (EVENTS_A_STEP + EVENTS_A_LAYER * found.layers) * found.ranks
        found = replace(found, steps=max(1, round(arguments.big * 1e6 / events)))
    return replace(found, bucket_bytes=round(arguments.bucket_mb * 2**20))


def write(made: Job, arguments: argparse.Namespace) -> tuple[str, ...]:
    """Write the formats asked for; their names.

    Raises:
        ValueError: the job cannot be written in one of them.
    """
    possible = FORMATS if can_horovod(made) else FORMATS[:2]
    wanted = arguments.formats or possible
    out: Path = arguments.out
    if "horovod" in wanted:
        write_horovod(made, out / "horovod", arguments.cached)
    if "kineto" in wanted:
        write_kineto(made, out / "kineto")
    if "nsys" in wanted:
        write_nsys(made, out / "nsys", arguments.report_per_rank, arguments.plant_secrets)
    write_truth(made, out)
    return wanted


def main(argv: list[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    out: Path = arguments.out
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        parser().error(f"{out} exists and is not an empty folder")
    try:
        made = job(config(arguments))
        wanted = write(made, arguments)
    except (ValueError, OSError) as error:
        parser().error(str(error))
    what = f"{made.config.ranks} ranks, {made.config.steps} steps"
    print(f"{what}: {', '.join(wanted)} and truth.json in {out}")
    return 0


if __name__ == "__main__":
    gc.disable()  # everything made here is kept to the end
    raise SystemExit(main())
