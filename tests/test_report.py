"""The report: findings of the simulated job, pages of hostile and of empty datasets, sizes."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from matched_rows import matched
from mdtrace.build.job import build
from mdtrace.commands import app
from mdtrace.errors import UsageError
from mdtrace.metrics.stragglers import Verdict
from mdtrace.plots import save
from mdtrace.report import advice
from mdtrace.report.facts import _METRICS, Facts, _empty, read
from mdtrace.report.findings import findings
from mdtrace.report.page import page
from mdtrace.report.summary import cards
from mdtrace.tables.dataset import Dataset, open_dataset
from rows import dataset

SIMULATED = Path(__file__).resolve().parents[1] / "sample_traces" / "simulated_8rank" / "kineto"
HOSTILE = "</script><script>alert(1)</script>"
MS = 1_000_000


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("report") / "job.mdtrace"
    build(sorted(SIMULATED.glob("*.gz")), folder)
    return open_dataset(folder)


@pytest.fixture(scope="module")
def facts(simulated: Dataset) -> Facts:
    return read(simulated)


def test_the_straggler_of_the_simulated_job_is_the_first_finding(facts: Facts) -> None:
    found = findings(facts)
    first = found[0]
    assert first.title == "Rank 5 makes the others wait"
    # 3 ms of sleep in steps of 7.65 ms, waited for by 7 of 8 ranks, little of it hidden.
    assert first.gain == pytest.approx(0.354, abs=0.01)
    assert first.gain_ns == pytest.approx(2.71 * MS, rel=0.03)
    assert first.confidence == "high"
    assert "host sleep in forward" in first.evidence[0]
    assert "Remove the sleep" in first.next_step
    assert {f.title for f in found} >= {
        "Communication is exposed",
        "Copies stand in the way",
        "Devices are idle",
    }
    assert all(0.01 <= f.gain <= 1 and f.evidence and f.next_step and f.sql for f in found)
    assert not facts.failed


def test_every_sql_of_the_report_runs(simulated: Dataset, facts: Facts) -> None:
    from mdtrace.metrics.engine import connect
    from mdtrace.report.sections import sections

    shown = {b.sql for s in sections(facts) for b in s.blocks if b.kind in ("rows", "figure")}
    queries = {sql for sql in shown | {f.sql for f in findings(facts)} if not sql.startswith("mdtrace")}
    assert len(queries) > 10
    with connect(simulated) as connection:
        for query in queries:
            connection.sql(f"EXPLAIN {query}")


def test_the_page_stands_alone_and_says_what_it_rests_on(facts: Facts) -> None:
    text = page(facts)
    assert len(text) < 2_000_000
    own = text.replace(save.scripts(), "")
    assert not re.search(r"<(script|link|img|iframe)[^>]*\b(src|href)=\"?(?!#)", own)
    assert "default-src &#39;none&#39;" in own
    for name in (
        "time",
        "layers",
        "communication",
        "stragglers",
        "changes",
        "kernels",
        "unanswered",
        "sources",
    ):
        assert f'<section id="{name}">' in own
    assert "FLOP and bytes known for 100.0 % of compute time; steps 1 to 3; 1 of 4 left out" in own
    assert own.count('class="spec"') == 10
    charts = re.findall(r'class="spec" data-place="([^"]+)">(.*?)</script>', own)
    assert [name for name, _ in charts][:2] == ["time-bars", "timeline"]
    assert all(json.loads(spec)["$schema"] for _, spec in charts)
    assert "@media print" in own


def test_the_command_writes_the_page(simulated: Dataset, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    result = CliRunner().invoke(app, ["report", str(simulated.path), "-o", str(out)], catch_exceptions=False)
    assert result.exit_code == 0
    assert "Rank 5 makes the others wait" in result.output
    assert out.read_text("utf-8").startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("name", ["r.html", "r.svg", "r.png", "r.json", "r.csv"])
def test_roofline_is_drawn_as_its_ending_says(simulated: Dataset, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    CliRunner().invoke(app, ["roofline", str(simulated.path), "-o", str(out)], catch_exceptions=False)
    starts = {
        "html": b"<!doctype html>", "svg": b"<svg", "png": b"\x89PNG", "json": b"{", "csv": b"process_id",
    }  # fmt: skip
    assert out.read_bytes().startswith(starts[name[2:]])


def test_roofline_prints_a_table_that_fits(simulated: Dataset) -> None:
    result = CliRunner().invoke(app, ["roofline", str(simulated.path)], catch_exceptions=False)
    lines = result.output.splitlines()
    assert max(map(len, lines)) <= 100
    assert any("Net_0/Linear_1" in line for line in lines)
    assert any("times are sums over ranks and steps" in line for line in lines)
    assert any("memory: 3.35 TB/s (hardware table" in line for line in lines)


def test_a_plane_without_points_is_left_out_and_it_is_said(simulated: Dataset, tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    asked = ["roofline", str(simulated.path), "--by", "operator", "-o", str(out), "--x"]
    result = CliRunner().invoke(app, [*asked, "both"], catch_exceptions=False)
    said = " ".join(result.output.split())
    assert "memory: 8 points" in said
    assert "communication left out: no bytes on the wire are known" in said
    assert "vconcat" not in json.loads(out.read_text())
    out.unlink()
    with pytest.raises(UsageError, match="nothing to draw: communication left out"):
        CliRunner().invoke(app, [*asked, "communication"], catch_exceptions=False)
    assert not out.exists()


def test_a_wrong_ending_is_told_the_right_ones(simulated: Dataset, tmp_path: Path) -> None:
    asked = ["roofline", str(simulated.path), "-o", str(tmp_path / "r.pdf")]
    with pytest.raises(UsageError) as raised:
        CliRunner().invoke(app, asked, catch_exceptions=False)
    assert all(ending in str(raised.value.hint) for ending in (".html", ".svg", ".png", ".csv"))


def test_names_from_traces_are_text_everywhere(tmp_path: Path) -> None:
    kernel = {"name": HOSTILE, "class": "compute", "kind": "kernel", "start_ns": 0, "end_ns": 5 * MS}
    rows: dict[str, Any] = {
        "device_ops": [{**kernel, "process_id": p} for p in (0, 1)],
        "host_ops": [{"name": HOSTILE, "kind": "operator", "start_ns": 0, "end_ns": MS, "process_id": 0}],
        "devices": [{"process_id": p, "device_id": 0, "name": HOSTILE} for p in (0, 1)],
        "diagnostics": [
            {"code": "x", "severity": "warning", "message": HOSTILE, "count": 1, "hint": HOSTILE}
        ],
        "processes": [{"process_id": 0, "host": HOSTILE}, {"process_id": 1}],
        "sources": [{"source_id": 0, "file": HOSTILE, "producer": HOSTILE}],
    }
    text = page(read(dataset(tmp_path / "x.mdtrace", **rows))).replace(save.scripts(), "")
    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert HOSTILE not in text


def test_an_empty_dataset_says_why_each_section_is_empty(tmp_path: Path) -> None:
    facts = read(dataset(tmp_path / "x.mdtrace"))
    assert findings(facts) == []
    text = page(facts)
    assert "neither device activity nor communication was captured" in text
    assert "no communication was captured" in text
    assert "Nothing was found that is worth 1 % of the time" in text
    assert "no step markers" in text


def test_a_metric_that_fails_does_not_take_the_report_with_it(facts: Facts) -> None:
    tables = {**facts.tables, "collective_bandwidth": _empty("collective_bandwidth")}
    failed = {"collective_bandwidth": "Out of Memory Error"}
    broken = Facts(facts.name, tables, failed, facts.layout, facts.questions, facts.stragglers)
    assert "collective_bandwidth could not be answered: Out of Memory Error" in page(broken)


def by_hand(**tables: list[dict[str, Any]]) -> Facts:
    """Facts with the named metrics' rows; the rest is empty."""
    every: dict[str, pa.Table] = {name: _empty(name) for name in _METRICS}
    for name, rows in tables.items():
        complete = [{column: row.get(column) for column in every[name].column_names} for row in rows]
        every[name] = pa.Table.from_pylist(complete)
    layout: dict[str, Any] = {n: [] for n in ("sources", "processes", "devices", "diagnostics")}
    return Facts("x", every, {}, layout, (), Verdict("cannot be said: one rank", None, (), None))


def test_gains_are_shares_of_the_steps() -> None:
    account = {"rank": 0, "steps": 2, "span_ns": 20 * MS, "exposed_comm_ns": 8 * MS, "idle_ns": 2 * MS,
               "exposed_memory_ns": 0, "compute_ns": 10 * MS}  # fmt: skip
    idle = {"idle_ns": 2 * MS, "host_ns": 2 * MS, "steady": True}
    network, idling = findings(by_hand(steady_breakdown=[account], step_idle_breakdown=[idle]))
    assert (network.gain, network.gain_ns) == (0.4, 4 * MS)
    assert network.confidence == "low"  # waiting cannot be told from transfer
    assert "waiting for other ranks included" in network.title
    assert (idling.gain, idling.gain_ns) == (0.1, MS)
    assert "100.0 % of it is waiting for the host to launch" in idling.evidence[1]
    assert "CUDA graphs" in idling.next_step


def test_what_models_say_stands_in_the_report(facts: Facts) -> None:
    from mdtrace.report.changes import changes

    assert not facts.outlook.refused
    blocks = changes(facts)
    told = next(b.text for b in blocks if b.kind == "text")
    assert "1.437 times slower" in told
    assert [b.name for b in blocks if b.kind == "figure"] == ["slowdown-heat", "fusion", "scaling"]
    (scaling,) = [b for b in blocks if b.kind == "rows" and b.title == "On other numbers of GPUs"]
    assert [row[0].text for row in scaling.cells] == ["8", "16", "32", "64"]


def test_models_that_refuse_say_why(tmp_path: Path) -> None:
    text = page(read(dataset(tmp_path / "x.mdtrace")))
    for what in ("no replay: ", "no fusion plans: ", "no prediction for other numbers of GPUs: "):
        assert what in text


def test_less_sure_findings_stand_lower() -> None:
    account = {"rank": 0, "steps": 1, "span_ns": 100, "exposed_comm_ns": 30, "idle_ns": 20}
    idle = {"idle_ns": 20, "host_ns": 20, "steady": True}
    found = findings(by_hand(steady_breakdown=[account], step_idle_breakdown=[idle]))
    assert [f.confidence for f in found] == ["high", "low"]  # 0.2 × 1 before 0.3 × 0.5


def test_kernels_are_compared_with_their_roofs() -> None:
    account = {"rank": 0, "steps": 1, "span_ns": 10 * MS}
    layer = {"process_id": 0, "layer": "a/fc", "compute_ns": 4 * MS, "t_compute_s": 0.001,
             "t_memory_s": 0.0005,
             "device_ns": 4 * MS, "bound": "latency", "flops": 10, "bytes": 10, "coverage": 1.0}  # fmt: skip
    unknown = {
        **layer,
        "layer": "b",
        "compute_ns": 5 * MS,
        "t_compute_s": None,
        "t_memory_s": 0.0,
        "coverage": 0.0,
    }
    job = {"roof_origin": "hardware table", "coverage": 0.9}
    (found,) = findings(
        by_hand(steady_breakdown=[account], layer_roofline=[layer, unknown], job_roofline=[job])
    )
    assert found.gain == pytest.approx(0.3)  # 4 ms where 1 ms would do, of 10
    assert "4 times as long" in found.evidence[0]
    assert "a/fc (30.0 % of the time)" in found.evidence[1]
    assert "larger batches" in found.next_step


def test_slow_steps_are_found() -> None:
    steps = [{"step": s, "steady": True, "host_max_ns": ms * MS, "longest_rank": 3}
             for s, ms in enumerate((10, 10, 10, 10, 40))]  # fmt: skip
    (found,) = findings(by_hand(step_summary=steps))
    assert found.gain == pytest.approx(30 / 80)
    assert "step 4: 40 ms, on rank 3" in found.evidence[1]


def test_a_straggler_without_a_known_cause_gets_advice() -> None:
    assert "does not tell why" in advice.straggler(None)
    assert "loader" in advice.straggler("data loading before forward")
    assert "in place" in advice.copies("Memcpy DtoD (Device -> Device)")


def test_copies_from_pinned_memory_are_not_told_to_pin_it() -> None:
    assert "overlap them with compute" in advice.copies("Memcpy HtoD (Pinned -> Device)")
    assert "Copy from pinned memory" in advice.copies("Memcpy HtoD (Pageable -> Device)")


def test_a_job_on_cpus_is_told_about_cpus() -> None:
    account = {"rank": 0, "steps": 1, "span_ns": 100, "idle_ns": 20, "basis": "host records"}
    cause = {"idle_ns": 20, "unknown_ns": 20, "steady": True}
    layer = {"process_id": 0, "layer": "a", "compute_ns": 50, "t_compute_s": 1e-8, "device_ns": 50,
             "bound": "latency", "flops": 10, "bytes": 10, "coverage": 1.0}  # fmt: skip
    found = findings(by_hand(steady_breakdown=[account], step_idle_breakdown=[cause], layer_roofline=[layer]))
    assert {f.title for f in found} == {
        "No operator runs in part of the time",
        "Operators run far under the roofs",
    }
    for finding in found:
        assert not re.search("device|[Kk]ernel|graphs", finding.next_step)


@pytest.mark.parametrize(
    ("blame", "persistent", "title", "why"),
    [
        (0.76, None, "Most waiting is for rank 7", "1 step compared: whether it recurs cannot be said"),
        (0.3, False, "Ranks wait for each other, in turn", "no rank is late step after step"),
    ],
)
def test_waiting_for_one_rank_is_not_called_in_turn(
    blame: float, persistent: bool | None, title: str, why: str
) -> None:
    rank = {"rank": 7, "blame": blame, "persistent": persistent, "steps": 1, "cause": None}
    facts = by_hand(job_roofline=[{"straggler_share": 0.2}])
    (found,) = findings(replace(facts, stragglers=Verdict("late", None, (rank,), None)))
    assert (found.title, found.why) == (title, why)


def test_a_timeline_has_communication_that_nothing_is_known_to_hide() -> None:
    collectives = [{"kind": "all_reduce", "count": 178}]
    for basis, bandwidth, note in (
        ("timeline", collectives, "a timeline tells no compute"),
        ("device activity", [], "no communication"),
    ):
        account = {"rank": 0, "steps": 1, "span_ns": 100, "basis": basis}
        facts = by_hand(
            steady_breakdown=[account], job_roofline=[{"phi": None}], collective_bandwidth=bandwidth
        )
        assert note in [card.note for card in cards(facts)]


def test_the_report_stands_beside_the_dataset_and_replaces_no_other_page(tmp_path: Path) -> None:
    dataset(tmp_path / "x.mdtrace")
    other = tmp_path / "x.html"
    other.write_text("mine")
    CliRunner().invoke(app, ["report", str(tmp_path / "x.mdtrace")], catch_exceptions=False)
    assert other.read_text() == "mine"
    assert (tmp_path / "x.report.html").is_file()


def test_two_ranks_by_hand_name_the_late_one(tmp_path: Path) -> None:
    collectives = [
        {"process_id": p, "kind": "all_reduce", "evidence": "kernel", "group_name": "0", "group_size": 2,
         "seq": s, "step": s, "start_ns": s * 10 * MS + (4 * MS if p else 0), "end_ns": s * 10 * MS + 5 * MS}
        for p in (0, 1) for s in range(5)
    ]  # fmt: skip
    steps = [
        {"process_id": p, "step": s, "name": f"ProfilerStep#{s}", "start_ns": s * 10 * MS - MS,
         "end_ns": s * 10 * MS + 9 * MS}
        for p in (0, 1) for s in range(5)
    ]  # fmt: skip
    facts = read(matched(tmp_path / "x.mdtrace", collectives=collectives, steps=steps))
    assert findings(facts)[0].title == "Rank 1 makes the others wait"
    assert "Rank 1 makes the others wait: 4 ms per step" in page(facts)
