"""Datasets of hand-written rows whose collectives are matched and whose clocks are solved."""

from pathlib import Path

import pyarrow as pa

from mdtrace.link.instances import match_collectives
from mdtrace.tables.dataset import Dataset, open_dataset, write_manifest
from mdtrace.tables.writer import write_table
from rows import Rows, dataset


def matched(folder: Path, **given: Rows) -> Dataset:
    """As `rows.dataset`, with `collectives.instance_id` filled and instances, matches and clocks made.

    Where no sources are given, each process is a file of its own.
    """
    if "sources" not in given:
        ids = sorted({r.get("process_id", 0) for rows in given.values() for r in rows})
        processes = {p: {"process_id": p, "source_id": p} for p in ids}
        for process in given.get("processes", ()):
            processes[process["process_id"]] = {"source_id": process["process_id"], **process}
        given["processes"] = list(processes.values())
        sources = sorted({p["source_id"] for p in given["processes"]})
        given["sources"] = [{"source_id": s, "file": f"{s}.json"} for s in sources]
    raw = dataset(folder, **given)
    found = match_collectives(raw)
    for file in raw.files["collectives"]:
        process = int(file.name[1:6])
        table = pa.parquet.read_table(file)
        place = table.schema.get_field_index("instance_id")
        write_table(
            folder,
            "collectives",
            table.set_column(place, table.schema.field(place), found.instance_ids[process]),
            file.stem,
        )
    for name, rows in found.tables.items():
        write_table(folder, name, rows, "job")
    write_manifest(folder)
    return open_dataset(folder)
