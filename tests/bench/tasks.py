"""The things that are timed, each run as a process of its own: `python tasks.py NAME ARGUMENT...`."""

import sys
from pathlib import Path


def pandas_read_sql(path: str) -> None:
    """The peer of reading an nsys export."""
    import sqlite3

    import pandas as pd

    connection = sqlite3.connect(path)
    for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "StringIds"):
        for chunk in pd.read_sql(f"SELECT * FROM {table}", connection, chunksize=100_000):
            len(chunk)


def nsys_to_parquet(path: str, out: str) -> None:
    """Reading an nsys export to Parquet in two threads, nothing linked."""
    import shutil
    from concurrent.futures import ThreadPoolExecutor

    import pyarrow as pa

    from mdtrace.ingest.facts import Source
    from mdtrace.ingest.nsys import read_nsys
    from mdtrace.ingest.pool import Pool
    from mdtrace.ingest.stage import StagedProcess
    from mdtrace.tables.writer import ROWS_PER_FILE, write_rows

    folder = Path(out)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "stage").mkdir(parents=True)
    with Pool(2) as pool:
        facts = read_nsys(Source(Path(path), "bench"), folder / "stage", pool)
    staged = StagedProcess(folder / "stage", facts.processes[0].staged_as)
    counted = {"device_op_count": pa.array([0] * ROWS_PER_FILE, pa.int32())}

    def write(part: tuple[str, int]) -> None:
        table, first = part
        batches = staged.batches(table, first, first + ROWS_PER_FILE)
        write_rows(folder, table, batches, process_id=0, rank=None, linked=counted, first_row=first)

    tables = ("device_ops", "launches", "host_ops")
    parts = [(table, first) for table in tables for first in range(0, staged.rows(table), ROWS_PER_FILE)]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, parts))


def account(dataset: str) -> None:
    """Time accounting of a dataset."""
    from mdtrace.metrics.engine import run
    from mdtrace.tables.dataset import open_dataset

    print(run(open_dataset(Path(dataset)), "time_breakdown").arrow().column("compute_ns").to_pylist())


def numpy_account(dataset: str) -> None:
    """The peer of accounting: sort and accumulate, reading the same Parquet."""
    import numpy as np
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    def union(start: "np.ndarray", end: "np.ndarray") -> int:
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
        reached = np.concatenate([start[:1], np.maximum.accumulate(end)[:-1]])
        return int((end - np.maximum(start, reached)).clip(0).sum())

    found = []
    for file in sorted((Path(dataset) / "device_ops").glob("*.parquet")):
        table = pq.read_table(file, columns=["start_ns", "dur_ns", "class"])
        start = table.column("start_ns").to_numpy()
        end = start + table.column("dur_ns").to_numpy()
        comm = pc.equal(table.column("class"), "communication").to_numpy()
        compute, _, _ = (union(start[m], end[m]) for m in (~comm, comm, np.ones(len(comm), bool)))
        found.append(compute)
    print(found)


def match(ranks: str, collectives: str) -> None:
    """Matching and aligning collectives of many ranks, from a dataset made on the way."""
    import tempfile

    import numpy as np
    import pyarrow as pa

    from mdtrace.link.instances import match_collectives
    from mdtrace.tables.dataset import open_dataset, write_manifest
    from mdtrace.tables.schema import row_id, tables
    from mdtrace.tables.writer import write_table

    n, k = int(ranks), int(collectives)
    schema = tables()["collectives"].arrow()
    with tempfile.TemporaryDirectory() as name:
        random = np.random.default_rng(0)
        end = np.arange(1, k + 1) * 1_000_000
        for rank in range(n):
            start = end - random.integers(20_000, 500_000, k)
            made = {
                "collective_id": pa.array(np.arange(k) + row_id(rank, 0)),
                "process_id": pa.array(np.full(k, rank, np.int32)),
                "rank": pa.array(np.full(k, rank, np.int32)),
                "kind": pa.array(["all_reduce"] * k),
                "name": pa.array(["ncclDevKernel_AllReduce"] * k),
                "evidence": pa.array(["kernel"] * k),
                "group_name": pa.array(["0"] * k),
                "group_size": pa.array(np.full(k, n, np.int32)),
                "seq": pa.array(np.arange(k)),
                "point_to_point": pa.array([False] * k),
                "members": pa.array(np.ones(k, np.int32)),
                "payload_bytes": pa.array(np.full(k, 1 << 20)),
                "start_ns": pa.array(start + rank * 1000),
                "end_ns": pa.array(end + rank * 1000),
            }
            columns = [made[f.name] if f.name in made else pa.nulls(k, f.type) for f in schema]
            write_table(
                Path(name), "collectives", pa.table(columns, schema.names).cast(schema), f"p{rank:05d}-0000"
            )
        rows = [
            {"process_id": r, "source_id": 0, "rank": r, "world_size": n, "host": f"h{r // 8}"}
            for r in range(n)
        ]
        write_table(Path(name), "processes", pa.Table.from_pylist(rows, tables()["processes"].arrow()), "all")
        write_manifest(Path(name))
        print(match_collectives(open_dataset(Path(name))).tables["instances"].num_rows)


if __name__ == "__main__":
    if sys.argv[1] != "pandas_read_sql":
        from mdtrace.process import settle

        settle()  # as every process of the command line does
    globals()[sys.argv[1]](*sys.argv[2:])
