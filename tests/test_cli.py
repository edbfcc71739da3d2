"""The command line as a user meets it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("duckdb", "polars", "pyarrow", "pandas", "altair", "numpy", "msgspec", "connectorx")


def mdtrace(
    *arguments: str | Path, stdin: str | None = None, columns: int = 100
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mdtrace", *map(str, arguments)],
        capture_output=True,
        text=True,
        input=stdin,
        stdin=None if stdin is not None else subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": str(columns), "TERM": "dumb"},
        timeout=120,
        check=False,
    )


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """One kernel and its launch, one operator around it."""

    def event(
        cat: str, name: str, pid: int, tid: int, ts: str, dur: str, **args: object
    ) -> dict[str, object]:
        return {
            "ph": "X",
            "cat": cat,
            "name": name,
            "pid": pid,
            "tid": tid,
            "ts": float(ts),
            "dur": float(dur),
            "args": args,
        }

    events = [
        event("cpu_op", "aten::mm", 7, 7, "10.0", "20.0", **{"External id": 1}),
        event("cuda_runtime", "cudaLaunchKernel", 7, 7, "12.0", "3.0", correlation=5),
        event("kernel", "gemm", 0, 7, "20.0", "4.5", device=0, stream=7, correlation=5),
    ]
    path = tmp_path / "rank3.json"
    path.write_text(json.dumps({"schemaVersion": 1, "baseTimeNanoseconds": 0, "traceEvents": events}))
    return path


@pytest.fixture
def dataset(trace: Path, tmp_path: Path) -> Path:
    done = mdtrace("ingest", trace, "-o", tmp_path / "d.mdtrace")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path / 'd.mdtrace'}\n"
    return tmp_path / "d.mdtrace"


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom mdtrace.commands import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        f"print([m for m in {HEAVY} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "ingest" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_query_in_every_format(dataset: Path, tmp_path: Path) -> None:
    query = "SELECT name, dur_ns, rank FROM device_ops"
    assert mdtrace("sql", dataset, query, "-f", "csv").stdout == "name,dur_ns,rank\ngemm,4500,3\n"
    assert json.loads(mdtrace("sql", dataset, query, "-f", "json").stdout) == [
        {"name": "gemm", "dur_ns": 4500, "rank": 3}
    ]
    assert "4500" in mdtrace("sql", dataset, stdin=query).stdout
    assert mdtrace("sql", dataset, query, "-o", tmp_path / "x.ndjson").returncode == 0
    assert json.loads((tmp_path / "x.ndjson").read_text()) == {"name": "gemm", "dur_ns": 4500, "rank": 3}
    import pyarrow.parquet as pq

    assert mdtrace("sql", dataset, query, "-o", tmp_path / "x.parquet").returncode == 0
    assert pq.read_table(tmp_path / "x.parquet").to_pylist() == [{"name": "gemm", "dur_ns": 4500, "rank": 3}]


def test_links_stand_in_the_tables(dataset: Path) -> None:
    query = """SELECT o.name, l.name AS launch, d.start_ns - l.start_ns - l.dur_ns AS delay_ns
        FROM device_ops d JOIN launches l USING (launch_id) JOIN host_ops o ON o.host_op_id = d.host_op_id"""
    assert (
        mdtrace("sql", dataset, query, "-f", "csv").stdout
        == "name,launch,delay_ns\naten::mm,cudaLaunchKernel,5000\n"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["ingest", "nowhere.json"], 2, "nowhere.json"),
        (["info", "nowhere.mdtrace"], 2, "does not exist"),
        (["sql", "{d}", "SELECT * FROM nothing"], 2, "nothing"),
        (["sql", "{d}", "SELEC"], 2, "query failed"),
        (["tables", "nothing"], 2, "no such table"),
        (["sql", "{d}", "FROM device_ops", "-o", "x.xyz"], 2, "names no format"),
        (["sql", "{d}", "FROM device_ops", "-o", "no/such/folder/x.csv"], 2, "no such folder"),
        (["ingest", "{t}", "-o", "{d}"], 2, "already exists"),
        (["ingest", "{t}", "{t}", "--rank", "1", "-o", "y.mdtrace"], 2, "--ranks"),
        (["ingest", "{t}", "--ranks", "other=1", "-o", "y.mdtrace"], 2, "--ranks"),
        (["ingest"], 2, "Missing argument"),
    ],
)
def test_what_is_wrong_is_said_and_no_traceback_shown(
    dataset: Path, trace: Path, arguments: list[str], code: int, says: str
) -> None:
    done = mdtrace(*[a.format(d=dataset, t=trace) for a in arguments])
    assert done.returncode == code
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_info_and_tables_fit_a_hundred_columns(dataset: Path) -> None:
    for command in (
        ["info", dataset],
        ["tables"],
        ["tables", "device_ops"],
        ["--help"],
        ["ingest", "--help"],
    ):
        done = mdtrace(*command)
        assert done.returncode == 0, done.stderr
        assert max(map(len, done.stdout.splitlines())) <= 100, command


def test_a_rank_is_added_and_the_dataset_not_overwritten(dataset: Path, trace: Path, tmp_path: Path) -> None:
    late = tmp_path / "late.json"
    late.write_bytes(trace.read_bytes())
    before = {f: f.read_bytes() for f in dataset.glob("*_ops/*.parquet")}
    assert mdtrace("ingest", late, "--add", dataset, "--rank", "1").returncode == 0
    query = (
        "SELECT p.process_id, p.rank, p.rank_origin, s.file FROM processes p JOIN sources s USING (source_id)"
    )
    assert mdtrace("sql", dataset, query + " ORDER BY 1", "-f", "csv").stdout == (
        "process_id,rank,rank_origin,file\n0,3,file name,rank3.json\n1,1,option,late.json\n"
    )
    assert (
        mdtrace("sql", dataset, "SELECT rank FROM device_ops ORDER BY 1", "-f", "csv").stdout
        == "rank\n1\n3\n"
    )
    assert all(f.read_bytes() == old for f, old in before.items())


def test_strict_exits_with_3_on_a_truncated_file(trace: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.json"
    cut.write_bytes(trace.read_bytes()[:-150])
    assert mdtrace("ingest", cut, "-o", tmp_path / "a.mdtrace").returncode == 0
    assert mdtrace("ingest", cut, "-o", tmp_path / "b.mdtrace", "--strict").returncode == 3
    assert (tmp_path / "b.mdtrace" / "manifest.json").exists()


def test_one_unreadable_file_does_not_lose_the_others(trace: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.touch()
    done = mdtrace("ingest", trace, empty, "-o", tmp_path / "d.mdtrace")
    assert done.returncode == 0
    assert "empty" in done.stderr
    out = mdtrace(
        "sql",
        tmp_path / "d.mdtrace",
        "SELECT severity, code FROM diagnostics WHERE severity = 'error'",
        "-f",
        "csv",
    )
    assert out.stdout == "severity,code\nerror,unreadable_input\n"
