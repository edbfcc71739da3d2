"""What can go wrong for a user, and the exit code of each.

An error says what happened, where, and what to do about it. `commands.main` catches
`MdtraceError` in one place; anything else that reaches it is a bug.
"""

from enum import IntEnum
from pathlib import Path


class Exit(IntEnum):
    """Exit codes of the command."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    DIAGNOSTICS = 3


class MdtraceError(Exception):
    """Base of all errors meant for the user.

    Args:
        what: what happened, where.
        hint: what the user can do about it.
    """

    exit_code = Exit.FAILED

    def __init__(self, what: str, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = _readable(what)
        self.hint = None if hint is None else _readable(hint)

    def __reduce__(self) -> tuple[type["MdtraceError"], tuple[str, str | None]]:
        return type(self), (self.what, self.hint)  # crosses process boundaries whole

    def __str__(self) -> str:
        return f"{self.what}\n{self.hint}" if self.hint else self.what


def _readable(text: str) -> str:
    """The text with "?" for the bytes of a path that are no UTF-8: messages end up in datasets too."""
    return text.encode("utf-8", "replace").decode()


class UsageError(MdtraceError):
    """The arguments do not fit together."""

    exit_code = Exit.USAGE


class InputError(MdtraceError):
    """A file is not what the command reads, or cannot be read at all."""

    exit_code = Exit.USAGE


class DatasetError(MdtraceError):
    """The dataset is missing, damaged, of another version, or in the way."""

    exit_code = Exit.USAGE


class QueryError(MdtraceError):
    """The SQL of the user does not run."""

    exit_code = Exit.USAGE


def check_path(path: Path) -> None:
    """Refuse a path that Arrow and DuckDB, which take UTF-8 alone, could not open.

    Raises:
        UsageError: the path is not UTF-8.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{path}: the path is not UTF-8", "rename it, or choose another") from error
