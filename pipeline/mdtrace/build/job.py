"""Builds a dataset: sources → read → link → write → match across processes → manifest.

Each source is one task, in a worker process where there are several; a single large source gives
its reader and writers the whole pool instead. Nothing of a source is kept in memory between
tasks but the few rows of its small tables.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mdtrace.build.source import SMALL, Done, Rows, Task, ingest_source
from mdtrace.errors import InputError
from mdtrace.ingest.detect import detect
from mdtrace.ingest.facts import Source
from mdtrace.ingest.pool import Pool
from mdtrace.ingest.ranks import job_diagnostics
from mdtrace.tables.dataset import Dataset, open_dataset, write_manifest
from mdtrace.tables.diagnostics import Diagnostic
from mdtrace.tables.place import building, check_target
from mdtrace.tables.schema import tables
from mdtrace.tables.writer import write_table


def build(
    inputs: Sequence[Path],
    out: Path,
    *,
    ranks: Mapping[Path, Sequence[int]] | None = None,
    add: bool = False,
    overwrite: bool = False,
    pool: Pool | None = None,
) -> Dataset:
    """Ingest files into a dataset folder.

    Args:
        inputs: trace files; also nsys parquetdir folders. Order does not matter.
        out: the dataset folder to make, or with `add` the one to add to.
        ranks: ranks the user states, by input, one for each process of it; they win over what the file says.
        pool: workers; by default everything runs in this process.

    Raises:
        InputError: no input could be read; of several, those that can be read are, and the others
            become diagnostics.
        DatasetError: `out` is in the way, or with `add` is no dataset.
    """
    before = open_dataset(out) if add else None
    if before is None:
        check_target(out, overwrite=overwrite)
    pool = pool or Pool(1)
    accepted, refused = _accept(inputs)
    with building(out) as work:
        tasks = _plan(accepted, ranks or {}, before, work)
        rows, failed = _run(tasks, pool)
        refused = refused + failed
        if len(refused) == len(inputs):
            raise refused[0]
        _finish(work / "dataset", rows, before, refused)
    return open_dataset(out)


def _accept(inputs: Sequence[Path]) -> tuple[list[tuple[Source, str]], list[InputError]]:
    """Each input with its format, sorted by name; and why the others are none."""
    accepted: list[tuple[Source, str]] = []
    refused: list[InputError] = []
    unique = sorted({p.absolute(): p for p in inputs}.items())
    for label, (_, path) in zip(_labels([p for p, _ in unique]), unique, strict=True):
        try:
            accepted.append((Source(path, label.encode("utf-8", "replace").decode()), detect(path)))
        except InputError as error:
            refused.append(error)
    return accepted, refused


def _labels(paths: Sequence[Path]) -> list[str]:
    """The shortest trailing parts of each path that tell the inputs apart."""
    for depth in range(1, 64):
        labels = ["/".join(p.parts[-depth:]) for p in paths]
        if len(set(labels)) == len(paths):
            break
    if depth == 1:
        return labels
    shared = len(Path(os.path.commonpath(paths)).parts)
    return ["/".join(p.parts[max(shared, len(p.parts) - depth) :]) for p in paths]


def _plan(
    accepted: Sequence[tuple[Source, str]],
    ranks: Mapping[Path, Sequence[int]],
    before: Dataset | None,
    work: Path,
) -> list[Task]:
    sources = before.table("sources", ["source_id"]).column(0).to_pylist() if before else []
    processes = before.table("processes", ["process_id"]).column(0).to_pylist() if before else []
    first_source = max(sources, default=-1) + 1
    first_process = max(processes, default=-1) + 1
    return [
        Task(source, form, first_source + i, first_process + i, len(accepted), ranks.get(source.path), work)
        for i, (source, form) in enumerate(accepted)
    ]


def _run(tasks: Sequence[Task], pool: Pool) -> tuple[dict[str, Rows], list[InputError]]:
    """All tasks: one a worker where there are enough, else one after the other with the whole pool each."""
    if len(tasks) >= pool.workers:
        results = list(pool.map(_ingest_alone, tasks))
    else:
        results = [ingest_source(task, pool) for task in tasks]
    rows: dict[str, Rows] = {t: [] for t in SMALL}
    for done in results:
        if isinstance(done, Done):
            for table, more in done.rows.items():
                rows[table] += more
    return rows, [done for done in results if isinstance(done, InputError)]


def _ingest_alone(task: Task) -> Done | InputError:
    return ingest_source(task, Pool(1))


def _finish(
    folder: Path, rows: dict[str, Rows], before: Dataset | None, refused: Sequence[InputError]
) -> None:
    """Small tables, what only the whole job shows, and the manifest."""
    if before is not None:
        _carry(before, folder, rows)
    whole = job_diagnostics(rows["processes"], rows["sources"])
    whole += [Diagnostic("unreadable_input", 1, {"what": error.what}) for error in refused]
    _write_small(folder, rows)
    write_manifest(folder)
    whole += _match(folder)
    rows["diagnostics"] += [d.row(None, None) for d in whole]
    _write_small(folder, {"diagnostics": rows["diagnostics"]})
    write_manifest(folder)


def _match(folder: Path) -> list[Diagnostic]:
    """Match collectives across processes; `collectives` is written anew with the instances filled in."""
    from mdtrace.link.instances import match_collectives  # late: see `source`

    dataset = open_dataset(folder)
    matched = match_collectives(dataset)
    for file in dataset.files["collectives"]:
        rows = pq.read_table(file)
        ids = matched.instance_ids.get(rows.column("process_id")[0].as_py())
        if ids is not None:
            rows = rows.set_column(rows.schema.get_field_index("instance_id"), "instance_id", ids)
            file.unlink()  # it may be a hard link to a file of another dataset
            write_table(folder, "collectives", rows, file.stem)
    for table, made in matched.tables.items():
        shutil.rmtree(folder / table, ignore_errors=True)
        write_table(folder, table, made, "job")
    return matched.diagnostics


def _carry(before: Dataset, folder: Path, rows: dict[str, Rows]) -> None:
    """What a dataset already holds, carried into the new one: event files linked, small rows first."""
    for table, files in before.files.items():
        for file in files:
            if table not in SMALL:
                (folder / table).mkdir(exist_ok=True)
                _link_file(file, folder / table / file.name)
    for table in SMALL:
        kept = before.table(table).to_pylist()
        if table == "diagnostics":  # those about the whole job are found anew
            kept = [r for r in kept if r["source_id"] is not None or r["code"] == "unreadable_input"]
        rows[table] = kept + rows[table]


def _link_file(old: Path, new: Path) -> None:
    try:
        new.hardlink_to(old)
    except OSError:  # a file system without hard links
        shutil.copyfile(old, new)


def _write_small(folder: Path, rows: Mapping[str, Rows]) -> None:
    for table, more in rows.items():
        schema = tables()[table].arrow()
        write_table(folder, table, pa.Table.from_pylist(more, schema=schema), "all")
