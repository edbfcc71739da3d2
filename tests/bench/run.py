"""make bench: ratios against peers, measured in one run on one machine.

Makes its inputs in bench-data/ (about 2 GB), installs HTA into an environment of its own, and prints a table;
`--write` puts it into README.md. Wants two idle cores and takes about ten minutes.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DATA = ROOT / "bench-data"
TASKS = [sys.executable, str(HERE / "tasks.py")]
INGEST = [
    sys.executable,
    "-m",
    "mdtrace",
    "ingest",
    "--quiet",
    "--overwrite",
    "-o",
    str(DATA / "out.mdtrace"),
]


@dataclass(frozen=True)
class Cost:
    """Of one process: seconds, and its memory. CPU seconds of workers are not known, as others' children."""

    wall_s: float
    cpu_s: float
    peak_mb: float

    def row(self, what: str, ratio: str = "", *, workers: bool = False) -> str:
        cpu = "" if workers else f"{self.cpu_s:.1f}"
        return f"| {what} | {self.wall_s:.1f} | {cpu} | {self.peak_mb:.0f} | {ratio} |"


def once(command: list[str]) -> Cost:
    start = time.monotonic()
    # As it is for users: Python keeps what it has compiled.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed")
    return Cost(time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6)


def median(command: list[str], runs: int) -> Cost:
    once(command)  # files and compiled modules into the cache
    costs = [once(command) for _ in range(runs)]
    return Cost(
        *(statistics.median(getattr(c, name) for c in costs) for name in ("wall_s", "cpu_s")),
        peak_mb=max(c.peak_mb for c in costs),
    )


def hta() -> str:
    """HTA's interpreter."""
    python = DATA / "hta" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(DATA / "hta")], check=True)
        subprocess.run(
            [str(python), "-m", "pip", "install", "-q", "HolisticTraceAnalysis==0.5.0"], check=True
        )
    return str(python)


def made(what: str, size: float) -> Path:
    """An input, made by a process of its own: what this one has held counts as its children's peak memory."""
    code = "import sys, pathlib, inputs; print(getattr(inputs, sys.argv[1])(pathlib.Path(sys.argv[2]), SIZE))"
    command = [sys.executable, "-c", code.replace("SIZE", repr(size)), what, str(DATA)]
    done = subprocess.run(command, cwd=HERE, check=True, stdout=subprocess.PIPE, text=True)
    return Path(done.stdout.splitlines()[-1])


def kineto(runs: int, millions: float, large: float) -> Iterator[str]:
    trace = made("kineto", millions)
    peer = median([hta(), str(HERE / "hta_load.py"), str(trace)], runs)
    yield peer.row(f"Kineto, {trace.stat().st_size / 1e6:.0f} MB: HTA 0.5.0 loads it")
    one, two = (median([*INGEST, "-j", jobs, str(trace)], runs) for jobs in "12")
    yield one.row("— mdtrace, whole ingest, 1 job", f"{peer.cpu_s / one.cpu_s:.1f} × less CPU")
    yield two.row("— 2 jobs", f"{one.wall_s / two.wall_s:.2f} × faster than 1", workers=True)
    trace = made("kineto", large)
    one, two = (median([*INGEST, "-j", jobs, str(trace)], runs) for jobs in "12")
    yield one.row(f"Kineto, {trace.stat().st_size / 1e6:.0f} MB: mdtrace, whole ingest, 1 job")
    yield two.row("— 2 jobs", f"{one.wall_s / two.wall_s:.2f} × faster than 1", workers=True)


def nsys(runs: int, kernels: int) -> Iterator[str]:
    export = made("nsys", kernels)
    peer = median([*TASKS, "pandas_read_sql", str(export)], runs)
    read = median([*TASKS, "nsys_to_parquet", str(export), str(DATA / "nsys")], runs)
    whole = median([*INGEST, "-j", "2", str(export)], runs)
    less = f"{peer.wall_s / read.wall_s:.1f} × faster, {peer.cpu_s / read.cpu_s:.1f} × less CPU"
    yield peer.row(f"nsys, {kernels * 3.5 / 1e6:.1f} M rows: pandas.read_sql")
    yield read.row("— mdtrace, read to Parquet, 2 threads", less)
    yield whole.row("— whole ingest, 2 jobs", f"{peer.wall_s / whole.wall_s:.1f} × faster", workers=True)


def metrics(runs: int, intervals: int) -> Iterator[str]:
    many = made("intervals", intervals)
    peer = median([*TASKS, "numpy_account", str(many)], runs)
    ours = median([*TASKS, "account", str(many)], runs)
    yield peer.row(f"Accounting, {intervals / 1e6:.0f} M intervals, 8 ranks: numpy sort-and-accumulate")
    yield ours.row("— mdtrace, time_breakdown", f"{ours.wall_s / peer.wall_s:.2f} × its time")
    yield median([*TASKS, "match", "64", "10000"], 1).row("Match and align 64 ranks × 10 000 collectives")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="runs of each, the median counts (default 3)")
    parser.add_argument("--millions", type=float, default=1.35, help="Kineto events, million (default 1.35)")
    parser.add_argument("--large", type=float, default=4.1, help="and in a larger trace (default 4.1)")
    parser.add_argument("--kernels", type=int, default=1_430_000, help="nsys kernels (default 1.43 million)")
    parser.add_argument(
        "--intervals", type=int, default=5_000_000, help="device intervals (default 5 million)"
    )
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    options = parser.parse_args()
    DATA.mkdir(exist_ok=True)
    lines = ["| what | wall s | CPU s | peak MB | |", "|---|---|---|---|---|"]
    for line in chain(
        kineto(options.runs, options.millions, options.large),
        nsys(options.runs, options.kernels),
        metrics(options.runs, options.intervals),
    ):
        print(line, flush=True)
        lines.append(line)
    text = "\n".join(lines)
    if options.write:
        readme = ROOT / "README.md"
        before, _, rest = readme.read_text().partition("<!-- bench -->\n")
        readme.write_text(f"{before}<!-- bench -->\n{text}\n<!-- end -->{rest.partition('<!-- end -->')[2]}")


if __name__ == "__main__":
    main()
