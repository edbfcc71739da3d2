"""Take out of an Nsight Systems SQLite export what nobody else should see, and what is not needed.

    python clean_nsys.py IN.sqlite OUT.sqlite

Kept: events, the strings that events name, version, session start, host name, devices, and of the
environment the variables in KEPT_VARIABLES. Gone: all other variables, command lines, paths, user names,
thread and library names, tables of constants. Look at the result before you share it: the texts of ranges
are the program's own.
"""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

KEPT_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "CUDA_VISIBLE_DEVICES")
KEPT_OPTIONS = ("CAPTURE_EVENT_TYPE", "CUDA_GRAPH_TRACE_OPTIONS:MODE")
KEPT_CONSTANTS = ("ENUM_NSYS_EVENT_TYPE", "ENUM_CUDA_MEMCPY_OPER", "ENUM_CUPTI_SYNC_TYPE")
DROPPED = (
    "ANALYSIS_FILE", "DIAGNOSTIC_EVENT", "OSRT_API", "OSRT_CALLCHAINS", "PROFILER_OVERHEAD", "ProcessStreams",
    "ThreadNames", "CUDA_CALLCHAINS", "MODULES",
)  # fmt: skip
STRING_COLUMNS = ("textId", "jsonTextId", "nameId", "demangledName", "shortName", "mangledName")


def main(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    with (
        closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as original,
        closing(sqlite3.connect(target, isolation_level=None)) as database,
    ):
        original.backup(database)
        drop_tables(database)
        clean_metadata(database)
        clean_processes(database)
        clean_strings(database)
        database.execute("VACUUM")


def tables(database: sqlite3.Connection) -> list[str]:
    rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return [name for (name,) in rows]


def columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in database.execute(f"PRAGMA table_info({table})")]


def drop_tables(database: sqlite3.Connection) -> None:
    for table in tables(database):
        constant = table.startswith("ENUM_") and table not in KEPT_CONSTANTS
        if constant or table in DROPPED:
            database.execute(f"DROP TABLE {table}")


def clean_metadata(database: sqlite3.Connection) -> None:
    """Of a process's environment only what says which rank it is."""
    known = tables(database)
    if "META_DATA_CAPTURE" in known:
        variables = " OR ".join(f"value LIKE '{name}=%'" for name in KEPT_VARIABLES)
        options = ", ".join(f"'{name}'" for name in KEPT_OPTIONS)
        database.execute(
            f"DELETE FROM META_DATA_CAPTURE WHERE name NOT IN ({options}) "
            f"AND NOT (name LIKE '%:ENVIRONMENT_VARIABLE' AND ({variables}))"
        )
    if "META_DATA_EXPORT" in known:
        database.execute(
            "DELETE FROM META_DATA_EXPORT "
            "WHERE name NOT LIKE 'EXPORT_PRODUCT%' AND name NOT LIKE 'EXPORT_SCHEMA%'"
        )
    if "TARGET_INFO_SYSTEM_ENV" in known:
        database.execute("DELETE FROM TARGET_INFO_SYSTEM_ENV WHERE name <> 'Hostname'")


def clean_processes(database: sqlite3.Connection) -> None:
    """Processes that events speak of, called by the last part of their path."""
    seen: set[int] = set()
    for table in tables(database):
        if table == "PROCESSES":
            continue
        for column in {"globalTid", "globalPid"} & set(columns(database, table)):
            rows = database.execute(f"SELECT DISTINCT {column} >> 24 FROM {table}")
            seen |= {process for (process,) in rows if process is not None}
    if "PROCESSES" not in tables(database):
        return
    rows = database.execute("SELECT rowid, globalPid, name FROM PROCESSES").fetchall()
    for row, process, name in rows:
        if process is None or process >> 24 not in seen:
            database.execute("DELETE FROM PROCESSES WHERE rowid = ?", (row,))
        elif name:
            database.execute("UPDATE PROCESSES SET name = ? WHERE rowid = ?", (Path(name).name, row))


def clean_strings(database: sqlite3.Connection) -> None:
    """Strings that a kept row names."""
    used: set[int] = set()
    for table in tables(database):
        for column in set(STRING_COLUMNS) & set(columns(database, table)):
            rows = database.execute(f"SELECT DISTINCT {column} FROM {table}")
            used |= {number for (number,) in rows if number is not None}
    rows = database.execute("SELECT id FROM StringIds").fetchall()
    unused = [(number,) for (number,) in rows if number not in used]
    database.executemany("DELETE FROM StringIds WHERE id = ?", unused)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
