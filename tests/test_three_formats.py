"""One simulated job in three formats: each ingestor tells the same story, and the true one."""

import json
from pathlib import Path
from typing import Any

import pytest

from mdtrace.build.job import build
from mdtrace.metrics.engine import connect

JOB = Path(__file__).resolve().parents[1] / "sample_traces" / "simulated_8rank"
TRUTH = json.loads((JOB / "truth.json").read_text())


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory):
    """A connection for each format's dataset."""
    folder = tmp_path_factory.mktemp("formats")
    inputs = {
        "kineto": sorted(JOB.rglob("*.gz")),
        "nsys": sorted(JOB.rglob("*.sqlite")),
        "horovod": [f for f in JOB.rglob("*.json") if f.name != "truth.json"],
    }
    return {name: connect(build(files, folder / f"{name}.mdtrace")) for name, files in inputs.items()}


def both(asked: dict[str, Any], query: str) -> list[tuple[Any, ...]]:
    """The answer that Kineto and nsys agree on."""
    kineto, nsys = (asked[name].sql(query).fetchall() for name in ("kineto", "nsys"))
    assert kineto == nsys
    return kineto


def test_ranks_and_hosts(asked) -> None:
    rows = both(asked, "SELECT rank, pid, host, world_size FROM processes ORDER BY rank")
    assert rows == [(r["rank"], r["pid"], r["host"], 8) for r in TRUTH["ranks"]]


def test_counts(asked) -> None:
    query = """SELECT rank, count(*) FILTER (kind = 'kernel'),
        count(*) FILTER (kind = 'kernel' AND class = 'communication'),
        count(*) FILTER (kind = 'memcpy'), count(*) FILTER (kind = 'memset')
        FROM device_ops GROUP BY 1 ORDER BY 1"""
    kinds = ("rank", "kernels", "communication_kernels", "memcpy", "memset")
    assert both(asked, query) == [tuple(c[k] for k in kinds) for c in TRUTH["counts"]]


def test_every_device_activity_to_the_ns(asked) -> None:
    rows = both(
        asked,
        """SELECT d.rank, d.start_ns, d.dur_ns, d.name, d.stream_id, d.step, l.name, l.start_ns
        FROM device_ops d LEFT JOIN launches l USING (launch_id) WHERE d.kind <> 'sync' ORDER BY ALL""",
    )
    assert len(rows) == sum(c["kernels"] + c["memcpy"] + c["memset"] for c in TRUTH["counts"])
    assert all(row[6] is not None for row in rows)


def test_accounting_is_the_truth_to_the_ns(asked) -> None:
    names = (
        "compute_ns",
        "comm_ns",
        "overlap_ns",
        "exposed_comm_ns",
        "exposed_memory_ns",
        "idle_ns",
        "span_ns",
    )
    rows = both(
        asked, f"SELECT rank, step, {', '.join(names)} FROM step_breakdown ORDER BY rank, step NULLS FIRST"
    )
    steps = [a for a in TRUTH["accounting"] if a["step"] != "all"]
    assert rows == [(a["rank"], a["step"], *(a[n] for n in names)) for a in steps]
    rows = both(asked, f"SELECT rank, {', '.join(names)} FROM time_breakdown ORDER BY rank")
    assert rows == [(a["rank"], *(a[n] for n in names)) for a in TRUTH["accounting"] if a["step"] == "all"]


def test_steps(asked) -> None:
    rows = both(asked, "SELECT rank, step, start_ns, end_ns FROM steps ORDER BY 1, 2")
    assert rows == [(s["rank"], s["step"], s["start_ns"], s["end_ns"]) for s in TRUTH["steps"]]


def test_layers(asked) -> None:
    paths = {path for (path,) in asked["kineto"].sql("SELECT path FROM layers").fetchall()}
    assert {layer["path"] for layer in TRUTH["layers"]} <= paths


def test_collectives(asked) -> None:
    wanted = [
        (c["kind"], c["step"], c["payload_bytes"], len(c["group_ranks"]), c["seq"], c["dtype"])
        for c in TRUTH["collectives"]
    ]
    query = """SELECT any_value(kind), any_value(step), any_value(payload_bytes), count(*), any_value(seq),
        any_value(dtype) FROM collectives GROUP BY instance_id ORDER BY min(start_ns)"""
    assert asked["kineto"].sql(query).fetchall() == wanted
    assert [r[:4] for r in asked["nsys"].sql(query).fetchall()] == [w[:4] for w in wanted]


def test_horovod_reduces_the_same_bytes_in_the_same_steps(asked) -> None:
    def reduced(name: str) -> list[tuple[Any, ...]]:
        one = "AND rank = 0" if name == "kineto" else ""
        return (
            asked[name]
            .sql(
                f"""SELECT step, sum(payload_bytes) FROM collectives WHERE kind = 'all_reduce' {one}
            GROUP BY 1 ORDER BY 1"""
            )
            .fetchall()
        )

    steps = {c["step"] for c in TRUTH["collectives"] if c["kind"] == "all_reduce"}
    wanted = [
        (
            s,
            sum(
                c["payload_bytes"]
                for c in TRUTH["collectives"]
                if c["kind"] == "all_reduce" and c["step"] == s
            ),
        )
        for s in sorted(steps)
    ]
    assert reduced("kineto") == wanted
    assert reduced("horovod") == wanted


def test_clocks_are_solved_within_their_error(asked) -> None:
    hosts = {h["host"]: h["offset_ns"] for h in TRUTH["hosts"]}
    for offset, error, host in both(
        asked, "SELECT DISTINCT offset_ns, error_ns, host FROM clock_offsets ORDER BY host"
    ):
        # The drift of 8 ppm moves node1 by 0.3 µs over this capture.
        assert abs(offset - hosts[host] + hosts["node0"]) <= error + 300


@pytest.mark.parametrize("name", ["kineto", "nsys", "horovod"])
def test_the_straggler_is_rank_5(asked, name: str) -> None:
    rows = (
        asked[name].sql("SELECT rank, persistent FROM straggler_ranks ORDER BY blame DESC LIMIT 1").fetchall()
    )
    assert rows[0][0] == 5


@pytest.mark.parametrize("name", ["kineto", "nsys", "horovod"])
def test_no_share_of_the_job_passes_one_and_a_timeline_alone_tells_none(asked, name: str) -> None:
    names = "mfu, efficiency, phi, compute_share, network_share, straggler_share, coverage"
    (shares,) = asked[name].sql(f"SELECT {names} FROM job_roofline").fetchall()
    assert all(share is None or 0 <= share <= 1 for share in shares)
    assert (shares[5] is None) == (name == "horovod")
