"""Where a dataset appears: whole or not at all.

Everything is made in a hidden folder beside the target, which then takes the target's place by a
rename. Whatever ends the work early leaves the target as it was and the hidden folder gone; one
left by a killed process is removed by the next ingest to the same target.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mdtrace.errors import DatasetError
from mdtrace.tables.dataset import MANIFEST


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
    """A work folder beside `out`; its subfolder `dataset` becomes `out` when the block ends well."""
    out = out.absolute()  # resolves no links: a linked target's own folder is replaced
    out.parent.mkdir(parents=True, exist_ok=True)
    _remove_stale(out)
    work = out.parent / f".{out.name}.{os.getpid()}.tmp"
    work.mkdir()
    try:
        (work / "dataset").mkdir()
        yield work
        if out.exists():
            out.rename(work / "old")
        (work / "dataset").rename(out)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _remove_stale(out: Path) -> None:
    for folder in out.parent.glob(f".{out.name}.*.tmp"):
        pid = folder.name.removeprefix(f".{out.name}.").removesuffix(".tmp")
        if pid.isdecimal() and not _alive(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
