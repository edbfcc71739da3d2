"""mdtrace sql."""

import contextlib
import io
import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mdtrace.commands.options import DatasetArgument, Format, FormatOption, OutOption
from mdtrace.errors import QueryError, UsageError
from mdtrace.process import ended_by, go_on, listen

if TYPE_CHECKING:
    import duckdb
    from prompt_toolkit.history import History


def run(
    dataset: DatasetArgument,
    query: Annotated[
        str | None,
        typer.Argument(
            help="The query; without it, it is read from stdin, or asked for.",
            metavar="SQL",
            show_default=False,
        ),
    ] = None,
    format: FormatOption = None,  # noqa: A002
    out: OutOption = None,
) -> None:
    """Ask a dataset in SQL (DuckDB's dialect).

    Tables and views: [bold]mdtrace tables[/bold]. Without a query: an interactive prompt with history.

    [bold]Examples[/bold]

      mdtrace sql job.mdtrace "SELECT name, sum(dur_ns) FROM device_ops GROUP BY ALL ORDER BY 2 DESC"

      mdtrace sql job.mdtrace "FROM time_breakdown" --format csv

      mdtrace sql job.mdtrace "FROM device_ops" -o kernels.parquet

      echo "SELECT count(*) FROM collectives" | mdtrace sql job.mdtrace
    """
    from mdtrace.commands import output
    from mdtrace.metrics.engine import connect
    from mdtrace.tables.dataset import open_dataset

    chosen = output.chosen(format, out)
    if query is None and not sys.stdin.isatty():
        query = sys.stdin.read()
    if query is not None and not query.strip():
        raise UsageError("the query is empty", 'for example: mdtrace sql job.mdtrace "FROM time_breakdown"')
    connection = connect(open_dataset(dataset))
    if query is None:
        _prompt(connection, chosen)
    else:
        _answer(connection, query, chosen, out)


def _answer(connection: "duckdb.DuckDBPyConnection", query: str, format: Format, out: Path | None) -> None:  # noqa: A002
    """Run one query and put out its rows."""
    import duckdb

    from mdtrace.commands import output

    try:
        relation = connection.sql(query) if query.strip() else None
        if relation is None:
            return
        if format is Format.TABLE and out is None:
            _show(relation)
        else:
            output.write_rows(relation.to_arrow_reader(), format, out)
    except duckdb.Error as error:
        raise QueryError(f"the query failed: {error}", "tables and columns: mdtrace tables [NAME]") from error


def _show(relation: Any) -> None:
    """DuckDB's own box, as wide as the terminal; whole where the output is no terminal."""
    from mdtrace.commands.output import note, printable, width

    rows = 40 if sys.stdout.isatty() else 10_000
    with contextlib.redirect_stdout(io.StringIO()) as box:
        relation.show(max_width=width(), max_rows=rows, null_value="NULL")
    text = box.getvalue()
    typer.echo(printable(text.removesuffix("\n")))
    footer = "\n".join(text.rstrip().splitlines()[-1:])
    if cut := re.search(r"(\d+) columns? \((\d+) shown\)", footer):
        note(f"{int(cut[1]) - int(cut[2])} columns hidden: name them, or use --format csv")


def _prompt(connection: "duckdb.DuckDBPyConnection", format: Format) -> None:  # noqa: A002
    """Read queries until end of file; a query ends with a semicolon or an empty line."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer

    from mdtrace.commands.output import note

    names = [r[0] for r in connection.execute("SELECT DISTINCT table_name FROM duckdb_columns()").fetchall()]
    names += [
        r[0] for r in connection.execute("SELECT DISTINCT column_name FROM duckdb_columns()").fetchall()
    ]
    session: PromptSession[str] = PromptSession(
        "mdtrace> ",
        history=_history(),
        lexer=PygmentsLexer(SqlLexer),
        completer=WordCompleter(sorted(names), ignore_case=True),
        complete_while_typing=False,
    )
    note("SQL over the dataset. End a query with a semicolon. SHOW TABLES; DESCRIBE name; leave with Ctrl-D")
    held = ""
    while True:
        try:
            held += session.prompt("mdtrace> " if not held else "    ...> ") + "\n"
        except KeyboardInterrupt:
            held = ""
            continue
        except EOFError:
            return
        if held.strip().rstrip(";").strip().lower() in ("quit", "exit", ".quit", ".exit"):
            return
        if held.rstrip().endswith(";") or not held.strip():
            _answer_or_say(connection, held, format)
            held = ""


def _answer_or_say(connection: "duckdb.DuckDBPyConnection", query: str, format: Format) -> None:  # noqa: A002
    """Answer; what fails, or is interrupted with Ctrl-C, ends the query and not the session."""
    from mdtrace.commands.output import note

    listen(signal.SIGINT)  # the prompt has signals of its own
    try:
        _answer(connection, query, format, None)
    except (QueryError, RuntimeError, SystemExit) as error:
        if ended_by() == signal.SIGINT:
            go_on()
            note("interrupted")
        elif isinstance(error, QueryError):
            note(error.what)
        else:
            raise


def _history() -> "History":
    """What was asked in earlier sessions; of this one alone where nothing can be kept."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    try:
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "mdtrace"
        state.mkdir(parents=True, exist_ok=True)
        (state / "sql_history").touch()
    except (OSError, RuntimeError):  # no home, or not ours to write in
        return InMemoryHistory()
    return FileHistory(str(state / "sql_history"))
