"""The command line: arguments → call → print. Nothing heavy is imported before a command runs.

Each command is a module with a function `run`, whose signature is the command's arguments and
whose docstring its help; it imports what it calls inside.
"""

import inspect
import os
import shutil
import signal
import sys
import textwrap
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from mdtrace import __version__
from mdtrace.commands.output import printable
from mdtrace.errors import Exit, MdtraceError
from mdtrace.process import deaf, ended_by, listen, settle

# The commands in the order of --help: module name, panel.
COMMANDS = (
    ("ingest", "Datasets"),
    ("info", "Datasets"),
    ("tables", "Datasets"),
    ("sql", "Datasets"),
    ("batch", "Datasets"),
    ("export", "Datasets"),
    ("overlap", "Where the time goes"),
    ("idle", "Where the time goes"),
    ("kernels", "Where the time goes"),
    ("ops", "Where the time goes"),
    ("steps", "Where the time goes"),
    ("collectives", "Where the time goes"),
    ("layers", "Where the time goes"),
    ("roofline", "Where the time goes"),
    ("stragglers", "Where the time goes"),
    ("compare", "Where the time goes"),
    ("report", "Where the time goes"),
    ("trajectory", "Where the time goes"),
    ("hardware", "Where the time goes"),
    ("scaling", "What would change it"),
    ("fusion", "What would change it"),
    ("predict", "What would change it"),
    ("whatif", "What would change it"),
    ("schedule", "What would change it"),
)

app = typer.Typer(
    name="mdtrace",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class _Command(TyperCommand):
    """A command whose refusals say what is wrong with a value, not of which kind the error is."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


def _flowing(text: str) -> str:
    """A docstring with a line for each paragraph: the terminal breaks lines, and would keep ours too.

    What is indented (examples, files) keeps its lines.
    """
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(p if p.startswith(" ") else p.replace("\n", " ") for p in paragraphs)


for _name, _panel in COMMANDS:
    _run = import_module(f"mdtrace.commands.{_name}").run
    app.command(_name, cls=_Command, help=_flowing(_run.__doc__ or ""), rich_help_panel=_panel)(_run)


def summaries() -> list[tuple[str, str]]:
    """Each command with the first line of its help."""
    modules = [(name, import_module(f"mdtrace.commands.{name}")) for name, _ in COMMANDS]
    return [(name, (module.run.__doc__ or "").strip().splitlines()[0]) for name, module in modules]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mdtrace {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Where the time of a distributed training job goes, from the traces it already left.

    Start with [bold]mdtrace ingest run.sqlite[/bold] (Nsight Systems, PyTorch profiler or Horovod traces),
    then ask [bold]mdtrace info run.mdtrace[/bold].
    """


def main() -> NoReturn:
    """Entry point: runs a command and turns what went wrong into a message and an exit code."""
    settle()
    _open_closed_streams()
    listen(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    try:
        app()
    except Exception as error:  # noqa: BLE001 - said or raised again
        if number := ended_by():  # libraries have errors of their own for an interrupted call
            sys.exit(128 + number)
        sys.exit(_say(error))
    finally:
        deaf()
    sys.exit(Exit.DONE)


def _say(error: Exception) -> int:
    """Say what went wrong; returns the exit code. What nobody foresaw is raised again."""
    if isinstance(error, MdtraceError):
        typer.secho(f"error: {printable(error.what)}", fg="red", err=True)
        if error.hint:
            typer.echo(_wrapped(printable(error.hint)), err=True)
        return error.exit_code
    if isinstance(error, BrokenPipeError):
        # The reader of our output has left; nothing may be written to it any more, at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.DONE
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        typer.secho(f"error: {printable(f'{where}{_reason(error)}')}", fg="red", err=True)
        return Exit.FAILED
    if isinstance(error, MemoryError):
        typer.secho("error: out of memory", fg="red", err=True)
        return Exit.FAILED
    raise error


def _open_closed_streams() -> None:
    """Let closed standard streams lead nowhere: else the next file opened would pass for them."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - open to the end


def _reason(error: OSError) -> str:
    """What the system says; libraries put words of their own around it."""
    return os.strerror(error.errno) if error.errno else str(error)


def _wrapped(hint: str) -> str:
    """A hint indented and broken at blanks, so that paths and commands stay whole words."""
    wrapper = textwrap.TextWrapper(
        shutil.get_terminal_size((100, 24)).columns,
        initial_indent="  ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(wrapper.fill(line) for line in hint.splitlines())
