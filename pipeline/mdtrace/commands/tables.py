"""mdtrace tables."""

from typing import Annotated, Any

import typer

from mdtrace.commands.options import Format, FormatOption, OutOption


def run(
    name: Annotated[str | None, typer.Argument(help="A table or view.", show_default=False)] = None,
    format: FormatOption = None,  # noqa: A002
    out: OutOption = None,
) -> None:
    """Describe the tables and views that SQL can ask: columns, units, what NULL means.

    [bold]Examples[/bold]

      mdtrace tables

      mdtrace tables device_ops
    """
    import pyarrow as pa

    from mdtrace.commands import output

    rows, columns = _all() if name is None else _one(name)
    chosen = output.chosen(format, out)
    if chosen is not Format.TABLE:
        output.write_rows(pa.Table.from_pylist(rows), chosen, out)
        return
    if name is None:
        output.print_table(rows, columns)
        output.note('Columns of one: mdtrace tables NAME. Ask with: mdtrace sql DATASET "SELECT …"')
    else:
        _print_one(name, rows)


def _all() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    from mdtrace.commands.output import Shown
    from mdtrace.metrics.catalog import metrics
    from mdtrace.tables.schema import tables

    rows = [{"name": t.name, "kind": "table", "grain": t.grain, "doc": t.doc} for t in tables().values()]
    rows += [{"name": m.name, "kind": "view", "grain": m.grain, "doc": m.purpose} for m in metrics().values()]
    columns = {k: Shown(k, right=False, wide=k == "doc") for k in ("name", "kind", "doc")}
    return rows, columns


def _one(name: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    from mdtrace.errors import UsageError
    from mdtrace.metrics.catalog import metrics
    from mdtrace.tables.schema import tables

    if name in tables():
        found = [
            {
                "column": c.name,
                "type": str(c.type),
                "unit": c.unit,
                "doc": c.doc,
                "null": c.null,
                "values": ", ".join(c.values) or None,
            }
            for c in tables()[name].columns
        ]
    elif name in metrics():
        found = [
            {"column": c.name, "type": c.type, "unit": c.unit, "doc": c.doc, "null": c.null, "values": None}
            for c in metrics()[name].columns
        ]
    else:
        raise UsageError(f"{name}: no such table or view", "list them with: mdtrace tables")
    return found, {}


def _print_one(name: str, rows: list[dict[str, Any]]) -> None:
    from rich.text import Text

    from mdtrace.commands import output
    from mdtrace.metrics.catalog import metrics
    from mdtrace.tables.schema import tables

    declared = tables().get(name)
    about = (declared.doc, declared.grain) if declared else (metrics()[name].purpose, metrics()[name].grain)
    output.line(f"{name}: {about[0]}", style="bold")
    output.line(f"Grain: {about[1]}.")
    for row in rows:
        unit = f" [{row['unit']}]" if row["unit"] else ""
        text = Text.assemble(
            "\n", (f"{row['column']}", "bold cyan"), f"  {row['type']}{unit}\n    {row['doc']}"
        )
        if row["values"]:
            text.append(f"\n    One of: {row['values']}.")
        if row["null"]:
            text.append(f"\n    NULL: {row['null']}.", style="dim")
        output.print_text(text)
