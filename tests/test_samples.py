"""The committed samples: README is right about them, nothing private is in them, they can be remade."""

import ast
import gzip
import json
import re
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from producers.clean_nsys import main as clean
from simulate import Config, Job, Straggler, job, write_horovod, write_kineto, write_nsys
from simulate.nsys_meta import PLANTED

SAMPLES = Path(__file__).resolve().parents[1] / "sample_traces"
SIMULATED = SAMPLES / "simulated_8rank"
DATA = [p for p in sorted(SAMPLES.glob("*/**/*")) if p.suffix in {".gz", ".json", ".jsonl", ".sqlite"}]
# What a path, a home or an environment looks like; torch/optim/… of Python frames is none of it.
PRIVATE = re.compile(rb"/home/|/root/|/tmp/|/opt/|/usr/|PASSWORD|TOKEN|SECRET|LD_PRELOAD|\bHOME=|\bPATH=")


@pytest.fixture(scope="module")
def simulated() -> Job:
    """The job that simulated_8rank was made from; its command stands in README."""
    return job(
        Config(
            layers=4,
            steps=4,
            stragglers=(Straggler(5, 3_000_000, "host"),),
            offsets_ms=(0.0, 2.5),
            drifts_ppm=(0.0, 8.0),
        )
    )


def unpacked(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def rows(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table."""
    with closing(sqlite3.connect(path)) as database:
        names = [n for (n,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: database.execute(f"SELECT * FROM {name}").fetchall() for name in names}


def ranges(path: Path, text: str) -> int:
    """NVTX ranges with a text."""
    tables = rows(path)
    strings = dict(tables["StringIds"])
    names = [row[6] if row[6] is not None else strings.get(row[9]) for row in tables["NVTX_EVENTS"]]
    return names.count(text)


def test_the_simulated_sample_can_be_remade(simulated: Job, tmp_path: Path) -> None:
    for path in write_kineto(simulated, tmp_path):
        assert unpacked(path) == unpacked(SIMULATED / "kineto" / path.name)
    for path in write_nsys(simulated, tmp_path):
        assert rows(path) == rows(SIMULATED / "nsys" / path.name)
    timeline = write_horovod(simulated, tmp_path)
    assert timeline.read_text() == (SIMULATED / "horovod" / "timeline.json").read_text()
    assert json.loads(json.dumps(simulated.truth)) == json.loads((SIMULATED / "truth.json").read_text())


def test_torch_sample_has_a_sleeping_rank_1() -> None:
    folder = SAMPLES / "torch_gloo_vgg_w2_straggler1"
    truth = json.loads((folder / "truth.json").read_text())
    assert (truth["straggler_rank"], truth["sleep_s"], truth["world"]) == (1, 0.1, 2)
    slept = []
    for rank in (0, 1):
        trace = json.loads(unpacked(folder / f"rank{rank}.pt.trace.json.gz"))
        assert trace["distributedInfo"]["rank"] == rank
        naps = [e["dur"] for e in trace["traceEvents"] if e.get("name") == "mdtrace_straggler_sleep"]
        slept.append((len(naps), sum(naps)))
    assert slept[0] == (0, 0)
    assert slept[1][0] == 5
    assert slept[1][1] > 5 * 100_000


def _horovod_last_ranks(name: str) -> tuple[int, Counter[int | str]]:
    """All-reduces of a timeline, and who was last in those that have ticks."""
    operations, last, heard = 0, Counter[int | str](), dict[int, list[tuple[int, int]]]()
    open_names: dict[int, list[str]] = {}
    for event in json.loads((SAMPLES / name / "timeline.json").read_text()):
        number = event.get("pid")
        if event["ph"] == "B":
            open_names.setdefault(number, []).append(event["name"])
            operations += event["name"] == "ALLREDUCE"
        elif event["ph"] == "X" and open_names[number][-1] == "NEGOTIATE_ALLREDUCE":
            heard.setdefault(number, []).append((event["ts"], int(event["name"])))
        elif event["ph"] == "E" and open_names[number].pop() == "NEGOTIATE_ALLREDUCE":
            ticks = sorted(heard.pop(number, []))
            if not ticks:
                continue  # answered from the cache
            last["tie" if ticks[-1][0] == ticks[-2][0] else ticks[-1][1]] += 1
    return operations, last


def test_horovod_sample_without_cache_says_who_was_last() -> None:
    assert _horovod_last_ranks("horovod_resnet_w4_straggler2_nocache") == (352, {2: 344, 3: 6, "tie": 2})


def test_horovod_sample_with_cache_has_ticks_in_its_first_step() -> None:
    assert _horovod_last_ranks("horovod_resnet_w4_cycles_straggler2") == (264, {2: 43, 3: 1})


@pytest.mark.parametrize("rank", [0, 1])
def test_nsys_sample_marks_steps_layers_and_the_sleep(rank: int) -> None:
    path = SAMPLES / "nsys_ddp_w2_straggler1" / f"rank{rank}.sqlite"
    assert ranges(path, "straggler_sleep") == 5 * rank
    assert ranges(path, "allreduce") == 5
    assert ranges(path, "layer:fc") == 5
    environment = [v for n, v in rows(path)["META_DATA_CAPTURE"] if n.endswith(":ENVIRONMENT_VARIABLE")]
    assert sorted(environment) == [f'RANK="{rank}"', 'WORLD_SIZE="2"']


@pytest.mark.parametrize("path", DATA, ids=lambda p: str(p.relative_to(SAMPLES)))
def test_samples_hold_nothing_private(path: Path) -> None:
    assert not PRIVATE.search(unpacked(path))


def test_cleaning_takes_secrets_out_and_leaves_the_events(simulated: Job, tmp_path: Path) -> None:
    for source in write_nsys(simulated, tmp_path, secrets=True):
        target = tmp_path / f"clean_{source.name}"
        clean(source, target)
        assert PLANTED.encode() in source.read_bytes()
        assert PLANTED.encode() not in target.read_bytes()
        before, after = rows(source), rows(target)
        for table in (
            "CUPTI_ACTIVITY_KIND_KERNEL",
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            "NVTX_EVENTS",
            "PROCESSES",
        ):
            assert after[table] == before[table]
        strings = dict(after["StringIds"])
        assert all(row[8] in strings for row in after["CUPTI_ACTIVITY_KIND_KERNEL"])


def test_samples_stay_small() -> None:
    assert sum(path.stat().st_size for path in DATA) < 3_000_000


def test_readme_speaks_of_every_sample_and_script() -> None:
    readme = (SAMPLES / "README.md").read_text()
    for path in sorted(SAMPLES.iterdir()):
        if path.name not in {"README.md", "__pycache__"} and not path.name.startswith("."):
            assert path.name in readme
    for path in sorted((SAMPLES / "producers").glob("*.py")):
        assert path.name in readme
        ast.parse(path.read_text())
