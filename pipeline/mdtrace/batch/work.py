"""One job: ingested, reported, and what became of it kept. Runs in a process of its own."""

import os
import shutil
import signal
from pathlib import Path

from mdtrace.batch.figures import figures
from mdtrace.batch.jobs import LOG, REPORT, JobFolder, State, read_state, write_state
from mdtrace.build.job import build
from mdtrace.errors import DatasetError, InputError, MdtraceError
from mdtrace.ingest.pool import Pool
from mdtrace.process import deaf, listen, settle
from mdtrace.tables.dataset import Dataset, open_dataset


def in_process(job: JobFolder, hardware: str | None, workers: int) -> None:
    """Do the job in a fresh process; what libraries say on stderr goes to a file beside the report."""
    settle()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it too, and ends its workers
    listen(signal.SIGTERM)
    job.out.mkdir(parents=True, exist_ok=True)
    with (job.out / LOG).open("wb") as log:
        os.dup2(log.fileno(), 2)
        try:
            work(job, hardware, workers)
        finally:
            deaf()


def work(job: JobFolder, hardware: str | None = None, workers: int = 1) -> State:
    """Ingest and report; a job whose dataset stands from an interrupted run is only reported.

    Args:
        workers: processes to read with.
    """
    job.out.mkdir(parents=True, exist_ok=True)
    try:
        state = _report(job, _dataset(job, workers), hardware)
    except MdtraceError as error:
        state = State(job.basis, "failed", str(error.what))
    except MemoryError:
        state = State(job.basis, "failed", "out of memory")
    except OSError as error:
        state = State(job.basis, "failed", error.strerror or str(error))
    write_state(job, state)
    return state


def _dataset(job: JobFolder, workers: int) -> Dataset:
    before = read_state(job)
    if before is not None and before.outcome == "ingested":
        try:
            return open_dataset(job.dataset)
        except DatasetError:
            pass  # made anew
    if not job.inputs:
        raise InputError(f"{job.name}: no file in it", "put the traces of the job there")
    if job.dataset.is_symlink() or job.dataset.is_file():
        raise DatasetError(f"{job.dataset.name}: in the way of the dataset", "remove it")
    shutil.rmtree(job.dataset, ignore_errors=True)
    try:
        with Pool(workers) as pool:
            made = build(job.inputs, job.dataset, pool=pool)
    except InputError as error:
        if len(job.inputs) == 1:
            raise
        raise InputError(f"none of its {len(job.inputs)} files can be read; {error.what}") from error
    write_state(job, State(job.basis, "ingested"))
    return made


def _report(job: JobFolder, dataset: Dataset, hardware: str | None) -> State:
    from mdtrace.report.facts import read
    from mdtrace.report.findings import findings
    from mdtrace.report.page import page

    facts = read(dataset, hardware)
    found = findings(facts)
    _write(job.out / REPORT, page(facts, found).encode())
    unreadable = sum(row["code"] == "unreadable_input" for row in facts.layout["diagnostics"])
    return State(job.basis, "done", figures=figures(facts, found), unreadable=unreadable)


def _write(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    temporary.replace(path)
