"""Measures this machine's roofs: GEMM by element type, memory bandwidth, a loopback all-reduce.

GEMM: C = A·B of square matrices with the numpy in use, 2·n³ FLOP. Memory: the triad a = b + s·c of McCalpin's
STREAM, written as two numpy passes that move 5 arrays (read c, write a; read a and b, write a), a thread for
each core. All-reduce: a ring over sockets of the loopback interface between processes, with bus bandwidth as
nccl-tests counts it. Each is run several times; the roof is the median run, the spread says how sure it is.
"""

import multiprocessing
import os
import platform
import select
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

import numpy as np

from mdtrace.errors import MdtraceError

RUNS = 7
RANKS = 2
_TIMEOUT_S = 60


@dataclass(frozen=True)
class Measured:
    """A rate: median of the runs, and (largest − smallest)/median."""

    per_s: float
    spread: float
    runs: int


@dataclass(frozen=True)
class Calibration:
    """What was measured of this machine.

    Attributes:
        cpu: name of the processor.
        gemm: FLOP/s by element type.
        triad: byte/s of memory.
        bus: byte/s of bus bandwidth between processes.
        latency_ns: time of an all-reduce of 8 bytes.
    """

    cpu: str
    cores: int
    gemm: dict[str, Measured]
    triad: Measured
    bus: Measured
    latency_ns: float


def calibrate(runs: int = RUNS, ranks: int = RANKS, scale: float = 1.0) -> Calibration:
    """Measure this machine, on an otherwise idle one; takes seconds.

    Args:
        runs: repetitions of each measurement, after one that warms up.
        ranks: processes of the all-reduce.
        scale: size of the measurements; below 1 they are quicker and less exact.

    Raises:
        MdtraceError: the processes of the all-reduce failed.
    """
    side = max(64, int(1536 * scale))
    elements = max(1 << 14, int(scale * (1 << 23)))
    bus, latency = _all_reduce(runs, ranks, elements // 4)
    return Calibration(
        cpu=cpu_name(),
        cores=cores(),
        gemm={"f64": gemm(np.float64, side, runs), "f32": gemm(np.float32, side, runs)},
        triad=triad(elements, runs),
        bus=bus,
        latency_ns=latency,
    )


def gemm(dtype: type[np.floating], side: int, runs: int) -> Measured:
    """FLOP/s of a square matrix product."""
    a = np.ones((side, side), dtype)
    b = np.ones((side, side), dtype)
    c = np.empty((side, side), dtype)
    return _rate(lambda: np.matmul(a, b, out=c), 2 * side**3, runs)


def triad(elements: int, runs: int) -> Measured:
    """Bytes/s of memory, by all that the two passes move, on all cores."""
    threads = cores()
    a, b, c = (np.array_split(np.ones(elements), threads) for _ in range(3))

    def part(i: int) -> None:
        np.multiply(c[i], 3.0, out=a[i])
        np.add(a[i], b[i], out=a[i])

    with ThreadPoolExecutor(threads) as pool:
        return _rate(lambda: list(pool.map(part, range(threads))), 5 * 8 * elements, runs)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _rate(work: Callable[[], object], amount: int, runs: int) -> Measured:
    work()
    return measured([amount / _seconds(work) for _ in range(runs)])


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return max(time.perf_counter() - start, 1e-9)


def measured(rates: Sequence[float]) -> Measured:
    """Median and spread of the runs."""
    middle = median(rates)
    return Measured(middle, (max(rates) - min(rates)) / middle, len(rates))


def _all_reduce(runs: int, ranks: int, elements: int) -> tuple[Measured, float]:
    """Bus bandwidth of a ring all-reduce between processes, and the time of an empty one in ns."""
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(ranks)]
    workers = [
        context.Process(target=_rank, args=(rank, ranks, runs, elements, child), daemon=True)
        for rank, (_, child) in enumerate(pipes)
    ]
    try:
        for worker in workers:
            worker.start()
        ports = [_received(parent) for parent, _ in pipes]
        for rank, (parent, _) in enumerate(pipes):
            parent.send(ports[(rank + 1) % ranks])
        times = [_received(parent) for parent, _ in pipes]
    finally:
        for worker in workers:
            if worker.is_alive():
                worker.join(timeout=5)
            if worker.is_alive():
                worker.terminate()
    # The slowest rank's time of each run; k·S over it.
    wire = 2 * (ranks - 1) / ranks * elements * 4
    large = [max(t[0][run] for t in times) for run in range(runs)]
    small = [max(t[1][run] for t in times) for run in range(runs)]
    return measured([wire / seconds for seconds in large]), median(small) * 1e9


def _received(pipe: Connection) -> list[list[float]]:
    if not pipe.poll(_TIMEOUT_S):
        raise MdtraceError("the all-reduce between processes did not come to an end")
    try:
        found: list[list[float]] = pipe.recv()
    except EOFError as error:
        raise MdtraceError("a process of the all-reduce failed") from error
    return found


def _rank(rank: int, ranks: int, runs: int, elements: int, pipe: Connection) -> None:
    """One process of the ring: it listens for its left neighbour and connects to its right one."""
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(_TIMEOUT_S)
    pipe.send(server.getsockname()[1])
    right = socket.create_connection(("127.0.0.1", pipe.recv()), timeout=_TIMEOUT_S)
    left, _ = server.accept()
    for end in (left, right):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.setblocking(False)
    ring = _Ring(rank, ranks, left, right)
    large = np.ones(max(ranks, elements // ranks * ranks), np.float32)
    small = np.ones(ranks, np.float32)
    ring.all_reduce(large)
    pipe.send([[_seconds(partial(ring.all_reduce, a)) for _ in range(runs)] for a in (large, small)])
    right.close()
    left.close()
    server.close()


@dataclass
class _Ring:
    rank: int
    ranks: int
    left: socket.socket
    right: socket.socket

    def all_reduce(self, values: np.ndarray) -> None:
        """Sum over the ring in place: n − 1 steps that reduce, n − 1 that hand on."""
        parts = np.split(values, self.ranks)
        held = np.empty_like(parts[0])
        for step in range(self.ranks - 1):
            send, receive = (self.rank - step) % self.ranks, (self.rank - step - 1) % self.ranks
            self._exchange(parts[send], held)
            np.add(parts[receive], held, out=parts[receive])
        for step in range(self.ranks - 1):
            send, receive = (self.rank + 1 - step) % self.ranks, (self.rank - step) % self.ranks
            self._exchange(parts[send], parts[receive])

    def _exchange(self, out: np.ndarray, into: np.ndarray) -> None:
        """Send to the right while receiving from the left, so that neither blocks the ring."""
        sending, receiving = out.view(np.uint8).data, into.view(np.uint8).data
        while sending or receiving:
            readable, writable, _ = select.select(
                [self.left] if receiving else [], [self.right] if sending else [], [], _TIMEOUT_S
            )
            if not readable and not writable:
                raise TimeoutError("a neighbour in the ring is gone")
            if writable:
                sending = sending[self.right.send(sending) :]
            if readable:
                got = self.left.recv_into(receiving)
                if not got:
                    raise ConnectionError("a neighbour in the ring is gone")
                receiving = receiving[got:]


def cpu_name() -> str:
    """The processor's name as the system states it."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names and names[0] else platform.processor() or platform.machine() or "CPU"


def as_toml(found: Calibration, day: str) -> str:
    """The measurement as a hardware file, for --hardware.

    Args:
        day: date of the measurement, for its sources.
    """
    text = found.cpu.replace("\\", "").replace('"', "")
    name = "".join(c for c in text if c.isprintable())
    peaks = ", ".join(f"{dtype} = {_number(m.per_s / 1e12)}" for dtype, m in found.gemm.items())
    gemm_spread = max(m.spread for m in found.gemm.values())

    def source(what: str, m: Measured, spread: float) -> str:
        return f'"measured {day}: {what}, median of {m.runs} runs, spread {100 * spread:.0f} %"'

    any_gemm = next(iter(found.gemm.values()))
    return "\n".join([
        "# Measured by mdtrace hardware calibrate: roofs of the whole machine, shared by the ranks on it.",
        "[cpu]",
        f'name = "{name}, {found.cores} cores"',
        'kind = "cpu"',
        f"memory_gb_per_s = {_number(found.triad.per_s / 1e9)}",
        'link = "loopback"',
        f"link_gb_per_s = {_number(found.bus.per_s / 1e9)}",
        f"link_latency_us = {_number(found.latency_ns / 1e3)}",
        f"matrix_tflops = {{ {peaks} }}",
        "[cpu.sources]",
        f"peaks = {source('GEMM', any_gemm, gemm_spread)}",
        f"memory = {source('triad', found.triad, found.triad.spread)}",
        f"link = {source('ring all-reduce over loopback', found.bus, found.bus.spread)}",
        "",
    ])  # fmt: skip


def _number(value: float) -> str:
    """Four digits, as TOML writes floats."""
    return f"{float(f'{value:.4g}'):.10f}".rstrip("0").rstrip(".") if value >= 1e-6 else repr(float(value))
