"""make bench: ratios against peers, measured in one run on one machine.

Makes its inputs in bench-data/ (about 1 GB), installs HTA into an environment of its own, and prints a table;
`--write` puts it into README.md.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DATA = ROOT / "bench-data"
TASKS = [sys.executable, str(HERE / "tasks.py")]
MDTRACE = [sys.executable, "-m", "mdtrace"]


@dataclass(frozen=True)
class Cost:
    """Of one process and its children: seconds, and the memory of the largest of them."""

    wall_s: float
    cpu_s: float
    peak_mb: float


def once(command: list[str]) -> Cost:
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed")
    return Cost(time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6)


def median(command: list[str], runs: int) -> Cost:
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


def rows(runs: int, millions: float, kernels: int, intervals: int) -> list[tuple[str, Cost, str]]:
    """Every measurement with its ratio to the peer's."""
    out = str(DATA / "out.mdtrace")
    trace, export, many = made("kineto", millions), made("nsys", kernels), made("intervals", intervals)
    size = trace.stat().st_size / 1e6
    ingest = [*MDTRACE, "ingest", "--quiet", "--overwrite", "-o", out]
    peer = median([hta(), str(HERE / "hta_load.py"), str(trace)], 1)
    one = median([*ingest, "-j", "1", str(trace)], runs)
    two = median([*ingest, "-j", "2", str(trace)], runs)
    table = [
        (f"Kineto, {size:.0f} MB: HTA 0.5.0 loads it", peer, ""),
        ("— mdtrace, whole ingest, 1 job", one, f"{peer.cpu_s / one.cpu_s:.1f} × less CPU"),
        ("— mdtrace, whole ingest, 2 jobs", two, f"{one.wall_s / two.wall_s:.2f} × faster than 1 job"),
    ]
    peer = median([*TASKS, "pandas_read_sql", str(export)], runs)
    read = median([*TASKS, "nsys_to_parquet", str(export), str(DATA / "nsys")], runs)
    whole = median([*ingest, "-j", "2", str(export)], runs)
    less = f"{peer.wall_s / read.wall_s:.1f} × faster, {peer.cpu_s / read.cpu_s:.1f} × less CPU"
    table += [
        (f"nsys, {kernels * 3.5 / 1e6:.1f} M rows: pandas.read_sql", peer, ""),
        ("— mdtrace, read to Parquet, 2 workers", read, less),
        ("— mdtrace, whole ingest, 2 jobs", whole, f"{peer.wall_s / whole.wall_s:.1f} × faster"),
    ]
    peer = median([*TASKS, "numpy_account", str(many)], runs)
    ours = median([*TASKS, "account", str(many)], runs)
    table += [
        (f"Accounting, {intervals / 1e6:.0f} M intervals, 8 ranks: numpy sort-and-accumulate", peer, ""),
        ("— mdtrace, time_breakdown", ours, f"{ours.wall_s / peer.wall_s:.2f} × its time"),
        ("Match and align 64 ranks × 10 000 collectives", median([*TASKS, "match", "64", "10000"], 1), ""),
    ]
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="runs of each, the median counts (default 3)")
    parser.add_argument("--millions", type=float, default=0.9, help="Kineto events, million (default 0.9)")
    parser.add_argument("--kernels", type=int, default=1_430_000, help="nsys kernels (default 1.43 million)")
    parser.add_argument(
        "--intervals", type=int, default=5_000_000, help="device intervals (default 5 million)"
    )
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    options = parser.parse_args()
    DATA.mkdir(exist_ok=True)
    table = rows(options.runs, options.millions, options.kernels, options.intervals)
    lines = ["| what | wall s | CPU s | peak MB | |", "|---|---|---|---|---|"]
    lines += [
        f"| {name} | {c.wall_s:.1f} | {c.cpu_s:.1f} | {c.peak_mb:.0f} | {ratio} |" for name, c, ratio in table
    ]
    text = "\n".join(lines)
    print(text)
    if options.write:
        readme = ROOT / "README.md"
        before, _, rest = readme.read_text().partition("<!-- bench -->\n")
        readme.write_text(f"{before}<!-- bench -->\n{text}\n<!-- end -->{rest.partition('<!-- end -->')[2]}")


if __name__ == "__main__":
    main()
