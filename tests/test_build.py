"""Building datasets: the same bytes for the same traces, nothing left behind, nothing let out."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from mdtrace.build.job import build
from mdtrace.errors import DatasetError, InputError
from mdtrace.ingest.pool import Pool
from simulate import Config, job, write_kineto, write_nsys
from simulate.nsys_meta import PLANTED

SAMPLES = Path(__file__).resolve().parents[1] / "sample_traces"
TORCH = sorted((SAMPLES / "torch_gloo_vgg_w2_straggler1").glob("*.gz"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def test_ingesting_twice_gives_the_same_bytes_whatever_the_order_and_the_workers(tmp_path: Path) -> None:
    once = build(TORCH, tmp_path / "once")
    with Pool(2) as pool:
        build(TORCH[::-1], tmp_path / "twice", pool=pool)
    assert contents(once.path) == contents(tmp_path / "twice")


def test_adding_ranks_gives_what_ingesting_them_together_gives(tmp_path: Path) -> None:
    together = build(TORCH, tmp_path / "together")
    build(TORCH[:1], tmp_path / "added")
    added = build(TORCH[1:], tmp_path / "added", add=True)
    for table in ("device_ops", "host_ops", "collectives", "instances", "clocks", "processes", "diagnostics"):
        assert added.table(table).equals(together.table(table)), table


def test_the_same_file_given_twice_is_one_source(tmp_path: Path) -> None:
    dataset = build([TORCH[0], TORCH[0].parent / "." / TORCH[0].name], tmp_path / "d")
    assert dataset.rows("sources") == 1


def test_inputs_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"rank{rank}").mkdir()
        (tmp_path / f"rank{rank}" / "trace.json.gz").write_bytes(TORCH[rank].read_bytes())
    dataset = build(sorted(tmp_path.glob("rank*/trace.json.gz")), tmp_path / "d")
    assert dataset.table("sources", ["file"]).column(0).to_pylist() == [
        "rank0/trace.json.gz",
        "rank1/trace.json.gz",
    ]


def test_a_rank_that_is_there_twice_stays_two_captures_and_is_named(tmp_path: Path) -> None:
    copy = tmp_path / "copy.json.gz"
    copy.write_bytes(TORCH[0].read_bytes())
    dataset = build([TORCH[0], copy], tmp_path / "d")
    assert dataset.table("processes", ["rank"]).column(0).to_pylist() == [0, 0]
    assert "rank_twice" in dataset.table("diagnostics", ["code"]).column(0).to_pylist()


def test_nothing_readable_leaves_nothing_and_keeps_what_was_there(tmp_path: Path) -> None:
    build(TORCH[:1], tmp_path / "d")
    before = contents(tmp_path / "d")
    (tmp_path / "no.json").write_text("hello")
    with pytest.raises(InputError):
        build([tmp_path / "no.json"], tmp_path / "d", overwrite=True)
    with pytest.raises(InputError):
        build([tmp_path / "no.json"], tmp_path / "d", add=True)
    with pytest.raises(DatasetError):
        build(TORCH, tmp_path / "d")
    assert contents(tmp_path / "d") == before
    assert sorted(f.name for f in tmp_path.iterdir()) == ["d", "no.json"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_ingest_leaves_nothing(tmp_path: Path, number: int) -> None:
    paths = write_kineto(job(Config(ranks=2, gpus_per_host=2, steps=40, layers=40)), tmp_path / "in")
    command = [sys.executable, "-m", "mdtrace", "ingest", *map(str, paths), "-o", str(tmp_path / "out" / "d")]
    process = subprocess.Popen(
        [*command, "--jobs", "2"], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("out/.d.*.tmp")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    os.kill(process.pid, number)
    _, said = process.communicate(timeout=60)
    assert process.returncode in (128 + number, 130)
    assert "Traceback" not in said
    assert list((tmp_path / "out").iterdir()) == []


@pytest.fixture
def secret_exports(tmp_path: Path) -> list[Path]:
    """nsys exports with planted secrets, in the new layout (META_DATA_CAPTURE) and the old."""
    new = write_nsys(job(Config(ranks=2, gpus_per_host=2, steps=2, layers=2)), tmp_path / "new", secrets=True)
    old = tmp_path / "old.sqlite"
    old.write_bytes(new[0].read_bytes())
    with closing(sqlite3.connect(old)) as db:
        db.execute("DROP TABLE IF EXISTS META_DATA_CAPTURE")
        block = f"HOME=/home/{PLANTED}\nRANK=1\nWORLD_SIZE=2\nAWS_SECRET={PLANTED}"
        db.execute("INSERT INTO StringIds VALUES (99999, ?)", (block,))
        db.commit()
    return [*new, old]


def test_no_planted_secret_and_no_path_reaches_a_dataset(secret_exports: list[Path], tmp_path: Path) -> None:
    for number, export in enumerate(secret_exports):
        assert PLANTED.encode() in export.read_bytes()
        dataset = build([export], tmp_path / f"{number}.mdtrace")
        rows = b"".join(repr(dataset.table(t).to_pylist()).encode() for t in dataset.files) + b"".join(
            contents(dataset.path).values()
        )
        assert PLANTED.encode() not in rows
        assert b"/home/" not in rows
        assert str(tmp_path).encode() not in rows


def test_no_user_or_path_of_a_kineto_trace_reaches_a_dataset(tmp_path: Path) -> None:
    trace = tmp_path / "t.json"
    trace.write_text(
        """{"schemaVersion": 1, "username": "planted-user", "INFO": ["planted-info"], "host_name": "node7",
        "my_key": "planted-key", "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "m", "pid": 1, "tid": 1,
        "ts": 1.0, "dur": 1.0, "args": {"External id": 1}}], "traceName": "/home/planted-name/t.json"}"""
    )
    dataset = build([trace], tmp_path / "d")
    rows = b"".join(repr(dataset.table(t).to_pylist()).encode() for t in dataset.files)
    assert b"planted" not in rows
    assert b"node7" in rows
