"""A dataset appears whole or not at all."""

import os
from pathlib import Path

import pytest

from mdtrace.errors import DatasetError
from mdtrace.tables.place import building, check_target


def names(folder: Path) -> list[str]:
    return sorted(f.name for f in folder.iterdir())


def test_the_work_appears_at_the_target_when_the_block_ends(tmp_path: Path) -> None:
    with building(tmp_path / "run.mdtrace") as work:
        (work / "dataset" / "manifest.json").write_text("{}")
        assert not (tmp_path / "run.mdtrace").exists()
    assert names(tmp_path) == ["run.mdtrace"]
    assert names(tmp_path / "run.mdtrace") == ["manifest.json"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_nothing_is_left_when_the_block_is_left_early(tmp_path: Path, error: type[BaseException]) -> None:
    (tmp_path / "run.mdtrace").mkdir()
    (tmp_path / "run.mdtrace" / "old").write_text("old")
    with pytest.raises(error), building(tmp_path / "run.mdtrace"):
        raise error
    assert names(tmp_path) == ["run.mdtrace"]
    assert names(tmp_path / "run.mdtrace") == ["old"]


def test_an_existing_dataset_is_replaced_whole(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "old").write_text("old")
    with building(tmp_path / "d") as work:
        (work / "dataset" / "new").write_text("new")
    assert names(tmp_path / "d") == ["new"]
    assert names(tmp_path) == ["d"]


def test_what_a_killed_ingest_left_is_removed_but_not_what_a_running_one_works_on(tmp_path: Path) -> None:
    dead = 2**22 - 1  # above the kernel's largest pid by default
    (tmp_path / f".d.{dead}.tmp").mkdir()
    (tmp_path / f".d.{os.getppid()}.tmp").mkdir()
    with building(tmp_path / "d"):
        pass
    assert names(tmp_path) == [f".d.{os.getppid()}.tmp", "d"]


def test_only_a_dataset_is_overwritten_and_only_when_told(tmp_path: Path) -> None:
    dataset = tmp_path / "d"
    dataset.mkdir()
    check_target(dataset, overwrite=False)  # an empty folder is in nobody's way
    (dataset / "manifest.json").write_text("{}")
    with pytest.raises(DatasetError, match="already exists"):
        check_target(dataset, overwrite=False)
    check_target(dataset, overwrite=True)
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.tex").write_text("x")
    with pytest.raises(DatasetError, match="no mdtrace dataset"):
        check_target(home, overwrite=True)
    with pytest.raises(DatasetError, match="no mdtrace dataset"):
        check_target(home / "thesis.tex", overwrite=True)
