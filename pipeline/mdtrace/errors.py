"""What can go wrong for a user, and the exit code of each.

An error says what happened, where, and what to do about it. `commands.main` catches
`MdtraceError` in one place; anything else that reaches it is a bug.
"""

from enum import IntEnum


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
        self.what = what
        self.hint = hint

    def __reduce__(self) -> tuple[type["MdtraceError"], tuple[str, str | None]]:
        return type(self), (self.what, self.hint)  # crosses process boundaries whole

    def __str__(self) -> str:
        return f"{self.what}\n{self.hint}" if self.hint else self.what


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
