"""Where a dataset appears: whole or not at all.

Everything is made in a hidden folder beside the target, which then takes the target's place by a
rename. Whatever ends the work early leaves the target as it was and the hidden folder gone; one
left by a killed process is removed by the next ingest to the same target.
"""

import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mdtrace.errors import DatasetError, check_path
from mdtrace.tables.dataset import MANIFEST

_OLD = "old"  # in the work folder: the dataset that is being replaced


def check_target(out: Path, *, overwrite: bool) -> None:
    """Refuse a target that is in the way.

    Raises:
        DatasetError: something exists there and may not, or must not, be replaced.
    """
    if not out.exists() and not out.is_symlink():
        return
    if not out.is_dir() or (any(out.iterdir()) and not (out / MANIFEST).is_file()):
        raise DatasetError(f"{out}: exists and is no mdtrace dataset", "choose another name with -o")
    if any(out.iterdir()) and not overwrite:
        raise DatasetError(
            f"{out}: already exists", "replace it with --overwrite, or add ranks to it with --add DATASET"
        )


@contextmanager
def building(out: Path) -> Iterator[Path]:
    """A work folder beside `out`; its subfolder `dataset` becomes `out` when the block ends well.

    Raises:
        DatasetError: no dataset can have that path, or somebody else put one there while the block ran.
    """
    out = out.absolute()  # resolves no links: a linked target's own folder is replaced
    check_path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    before = _state(out)
    _remove_stale(out)
    work = out.parent / f".{out.name}.{os.getpid()}.tmp"
    try:
        work.mkdir()  # in here: a signal may come right behind it
        (work / "dataset").mkdir()
        yield work
        if _state(out) != before:
            raise DatasetError(
                f"{out}: another ingest wrote it in the meantime",
                "run this one again, with --add or another -o",
            )
        _replace(out, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _state(out: Path) -> tuple[int, int] | None:
    """Tells one dataset at a place from the next; None where there is none."""
    try:
        manifest = (out / MANIFEST).stat()
    except OSError:
        return None
    return manifest.st_ino, manifest.st_mtime_ns


def _replace(out: Path, work: Path) -> None:
    """Put the new dataset in the old one's place; whatever goes wrong, one of them is there."""
    old = work / _OLD
    try:
        if out.exists():
            out.rename(old)
        (work / "dataset").rename(out)
    except BaseException:
        _restore(old, out)
        raise


def _restore(old: Path, out: Path) -> None:
    if old.exists() and not out.exists():
        old.rename(out)


def _remove_stale(out: Path) -> None:
    for folder in out.parent.glob(f".{glob.escape(out.name)}.*.tmp"):
        pid = folder.name.removeprefix(f".{out.name}.").removesuffix(".tmp")
        if pid.isdecimal() and not _alive(int(pid)):
            _restore(folder / _OLD, out)
            shutil.rmtree(folder, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
