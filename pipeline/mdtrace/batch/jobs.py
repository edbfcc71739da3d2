"""Jobs as folders, what of them was done, and whether it still holds."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from mdtrace import __version__
from mdtrace.batch.figures import Figures
from mdtrace.errors import InputError, UsageError
from mdtrace.ingest.detect import detect
from mdtrace.tables.schema import SCHEMA_VERSION

STATE, REPORT, LOG = "state.json", "report.html", "errors.txt"
Outcome = Literal["ingested", "done", "failed"]


class Input(msgspec.Struct, frozen=True):
    """An input as it was: name in the job's folder, bytes, time of its last change."""

    name: str
    size_bytes: int
    changed_ns: int


class Basis(msgspec.Struct, frozen=True):
    """What an outcome was made from, and by which mdtrace."""

    inputs: tuple[Input, ...]
    hardware: tuple[str, ...] = ()
    mdtrace: str = __version__
    schema: str = str(SCHEMA_VERSION)


class State(msgspec.Struct, frozen=True):
    """What became of a job.

    Attributes:
        outcome: ingested: the report is still to be made.
        reason: why it failed.
        unreadable: inputs that are not in the dataset, as told by its diagnostics.
    """

    basis: Basis
    outcome: Outcome
    reason: str | None = None
    figures: Figures | None = None
    unreadable: int = 0


@dataclass(frozen=True)
class JobFolder:
    """One job: where its traces are, and where its dataset and report go.

    Attributes:
        inputs: files of traces, and folders of nsys exports, sorted.
    """

    name: str
    source: Path
    out: Path
    inputs: tuple[Path, ...]
    basis: Basis

    @property
    def dataset(self) -> Path:
        """The dataset folder."""
        return self.out / f"{self.name}.mdtrace"


def find_jobs(folder: Path, out: Path, hardware: str | None = None) -> list[JobFolder]:
    """The jobs of a folder: each of its folders, but `out`, hidden ones and datasets, by name.

    Args:
        hardware: what the reports are told of it; a changed file makes new reports.

    Raises:
        UsageError: it has no folder, or `out` is the folder itself.
        InputError: it cannot be listed.
    """
    if out.resolve() == folder.resolve():
        raise UsageError(f"{out}: holds the jobs", "choose another folder with -o")
    try:
        found = sorted(f for f in folder.iterdir() if f.is_dir() and not f.name.startswith("."))
    except OSError as error:
        raise InputError(f"{folder}: cannot be listed: {error.strerror}", "give a folder of jobs") from error
    jobs = [f for f in found if not _skipped(f, out)]
    if not jobs:
        raise UsageError(
            f"{folder}: has no folder in it", "put the traces of each job in a folder of its own"
        )
    given = _hardware(hardware)
    return [_job(source, out, given) for source in jobs]


def _job(source: Path, out: Path, hardware: tuple[str, ...]) -> JobFolder:
    inputs = tuple(sorted(_inputs(source, out)))
    seen = tuple(_seen(path, source) for path in inputs)
    return JobFolder(source.name, source, out / source.name, inputs, Basis(seen, hardware))


def _inputs(source: Path, out: Path) -> list[Path]:
    """Files at any depth; nsys parquetdir folders as they are. Hidden ones and datasets are none."""
    found: list[Path] = []
    for place, folders, files in os.walk(source):
        path = Path(place)
        if _kind(path) == "nsys":
            found.append(path)
            folders.clear()
            continue
        folders[:] = sorted(
            f for f in folders if not f.startswith(".") and not _skipped(path / f, out)
        )  # fmt: skip
        found += [path / f for f in files if not f.startswith(".")]
    return found


def _skipped(folder: Path, out: Path) -> bool:
    return (folder / "manifest.json").is_file() or folder.resolve() == out.resolve()


def _kind(folder: Path) -> str | None:
    try:
        return detect(folder)
    except InputError:
        return None


def _seen(path: Path, source: Path) -> Input:
    name = _text(str(path.relative_to(source)))
    try:
        files = [f.stat() for f in sorted(path.iterdir())] if path.is_dir() else [path.stat()]
    except OSError:
        return Input(name, -1, -1)  # said when it is read
    return Input(name, sum(f.st_size for f in files), max((f.st_mtime_ns for f in files), default=0))


def _text(name: str) -> str:
    """A name that JSON can hold, whatever bytes it is made of."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def _hardware(hardware: str | None) -> tuple[str, ...]:
    if hardware is None:
        return ()
    path = Path(hardware)
    if not path.is_file():
        return (hardware,)
    facts = path.stat()
    return hardware, str(facts.st_size), str(facts.st_mtime_ns)


def read_state(job: JobFolder) -> State | None:
    """What was done of the job's inputs as they are now; None: nothing, or they have changed since."""
    try:
        state = msgspec.json.decode((job.out / STATE).read_bytes(), type=State)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return None
    return state if state.basis == job.basis else None


def write_state(job: JobFolder, state: State) -> None:
    """Keep what was done; the file appears whole."""
    temporary = job.out / f".{STATE}.{os.getpid()}"
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(state)))
    temporary.replace(job.out / STATE)


def is_done(job: JobFolder) -> State | None:
    """The state of a job that need not be done again: done, and its dataset and report are there."""
    state = read_state(job)
    if state is None or state.outcome != "done":
        return None
    whole = (job.dataset / "manifest.json").is_file() and (job.out / REPORT).is_file()
    return state if whole else None
