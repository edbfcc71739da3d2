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


@pytest.mark.parametrize("there", [False, True])
def test_what_another_ingest_put_there_meanwhile_stays(tmp_path: Path, there: bool) -> None:
    target = tmp_path / "d"
    if there:
        target.mkdir()
        (target / "manifest.json").write_text("old")
    with pytest.raises(DatasetError, match="in the meantime"), building(target):
        write_by_another(target)
    assert (target / "manifest.json").read_text() == "theirs"
    assert names(tmp_path) == ["d"]


def write_by_another(target: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getpid", os.getppid)
        with building(target) as work:
            (work / "dataset" / "manifest.json").write_text("theirs")


def test_the_old_dataset_stays_where_the_new_one_cannot_take_its_place(tmp_path: Path) -> None:
    target = tmp_path / "d"
    target.mkdir()
    (target / "manifest.json").write_text("old")
    with pytest.raises(FileNotFoundError), building(target) as work:
        (work / "dataset").rmdir()  # so that it cannot be renamed
    assert (target / "manifest.json").read_text() == "old"
    assert names(tmp_path) == ["d"]


def test_a_dataset_taken_aside_by_a_killed_ingest_comes_back(tmp_path: Path) -> None:
    """Killed between taking the old one aside and putting the new one there."""
    left = tmp_path / f".d[1].{2**22 - 1}.tmp"
    (left / "old").mkdir(parents=True)
    (left / "old" / "manifest.json").write_text("old")
    with pytest.raises(KeyboardInterrupt), building(tmp_path / "d[1]"):
        raise KeyboardInterrupt
    assert names(tmp_path) == ["d[1]"]
    assert names(tmp_path / "d[1]") == ["manifest.json"]
