"""Opening datasets: what is none, or none any more, is named."""

import json
from pathlib import Path

import pytest

from mdtrace.errors import DatasetError
from mdtrace.metrics.engine import connect
from mdtrace.tables.dataset import open_dataset
from rows import dataset as made

KERNEL = {"kind": "kernel", "class": "compute", "start_ns": 1, "dur_ns": 2}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made(tmp_path, device_ops=[KERNEL]).path


def test_a_dataset_is_read_back(folder: Path) -> None:
    opened = open_dataset(folder)
    assert opened.rows("device_ops") == 1
    assert opened.table("device_ops", ["dur_ns", "kind"]).to_pylist() == [{"dur_ns": 2, "kind": "kernel"}]


def test_other_declarations_are_named(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    for change in ({"schema_version": 0}, {"schemas": "00000000"}):
        (folder / "manifest.json").write_text(json.dumps({**manifest, **change}))
        with pytest.raises(DatasetError, match="made with table declarations"):
            open_dataset(folder)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"files": 3}', '{"files": {"device_ops": 3}}', "\udcff"]
)
def test_a_manifest_that_is_none(folder: Path, text: str) -> None:
    (folder / "manifest.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DatasetError):
        open_dataset(folder)


def test_a_file_that_is_gone_or_damaged(folder: Path) -> None:
    opened = open_dataset(folder)
    (file,) = opened.files["device_ops"]
    file.write_bytes(b"PAR1 no more")
    with pytest.raises(DatasetError, match="device_ops"):
        opened.table("device_ops")
    with pytest.raises(DatasetError):
        connect(opened)
    file.unlink()
    with pytest.raises(DatasetError, match="gone"):
        open_dataset(folder)
