"""All jobs, several at once, each in a process of its own, so that none can take the others with it."""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess

from mdtrace.batch.jobs import LOG, JobFolder, State, is_done, read_state
from mdtrace.batch.work import in_process


@dataclass(frozen=True)
class Result:
    """A job and what became of it.

    Attributes:
        state: None: not begun, as the run was ended.
        skipped: it was done before, and nothing has changed.
        seconds: it took.
    """

    job: JobFolder
    state: State | None
    skipped: bool = False
    seconds: float = 0.0


Told = Callable[[Result], None]


def run_all(
    jobs: Sequence[JobFolder],
    results: list[Result],
    *,
    at_once: int = 1,
    hardware: str | None = None,
    told: Told = lambda _: None,
) -> None:
    """Do all jobs that are not done.

    Args:
        results: each result is put here as it comes, so that they are there when the run is ended early.
        at_once: jobs at a time; where fewer are to be done, each is read by several processes.
        told: called with each result.
    """

    def end(result: Result) -> None:
        results.append(result)
        told(result)

    waiting = []
    for job in jobs:
        done = is_done(job)
        if done is not None:
            end(Result(job, done, skipped=True))
        elif job.out.exists() and not job.out.is_dir():
            end(
                Result(job, State(job.basis, "failed", f"{job.out.name}: a file is in the way of its folder"))
            )
        else:
            waiting.append(job)
    spare = max(1, at_once // max(1, len(waiting)))
    running: dict[int, tuple[JobFolder, SpawnProcess, float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                job = waiting.pop(0)
                process = _start(job, hardware, spare)
                running[process.sentinel] = (job, process, time.monotonic())
            for sentinel in wait(list(running)):
                assert isinstance(sentinel, int)
                job, process, start = running.pop(sentinel)
                process.join()
                end(Result(job, _ended(job, process), seconds=time.monotonic() - start))
    finally:
        for _, process, _ in running.values():
            process.terminate()
        for _, process, _ in running.values():
            process.join()


def _start(job: JobFolder, hardware: str | None, workers: int) -> SpawnProcess:
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=in_process, args=(job, hardware, workers))
    process.start()
    return process


def _ended(job: JobFolder, process: SpawnProcess) -> State:
    """What the job's process left."""
    log = job.out / LOG
    if log.is_file() and log.stat().st_size == 0:
        log.unlink()
    state = read_state(job)
    if process.exitcode == 0 and state is not None and state.outcome != "ingested":
        return state
    code = process.exitcode or 0
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    more = f"; {LOG} beside it says more" if log.is_file() else ""
    return State(job.basis, "failed", f"its process ended {how}, out of memory perhaps{more}")
