"""Pages in a real browser: no error on the console, all charts drawn, nothing asked of any network."""

from pathlib import Path

import pytest

from chromium import visit
from mdtrace.build.job import build
from mdtrace.plots import save
from mdtrace.plots.roofline import roofline
from mdtrace.report.facts import read
from mdtrace.report.page import page
from mdtrace.tables.dataset import open_dataset
from plot_rows import points, roofs

SIMULATED = Path(__file__).resolve().parents[1] / "sample_traces" / "simulated_8rank" / "kineto"
CHARTS = "document.querySelectorAll('.chart').length"
DRAWN = "document.querySelectorAll('.chart svg.marks, .chart canvas.marks').length"
PAPER = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chromium")
    build(sorted(SIMULATED.glob("*.gz")), folder / "job.mdtrace")
    out = folder / "report.html"
    out.write_text(page(read(open_dataset(folder / "job.mdtrace"))), "utf-8")
    return out


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_the_report_draws_without_errors_or_network(report: Path, tmp_path: Path, dark: bool) -> None:
    seen = visit(report, [CHARTS, DRAWN, PAPER], tmp_path, dark)
    assert seen.errors == []
    assert [r for r in seen.requests if not r.startswith(("file:", "data:", "blob:"))] == []
    charts, drawn, paper = seen.answers
    assert charts == drawn == 10
    assert paper == ("rgb(21, 24, 29)" if dark else "rgb(255, 255, 255)")


@pytest.mark.slow
def test_hostile_names_run_nothing_and_many_points_are_drawn(tmp_path: Path) -> None:
    hostile = "</script><script>window.hacked = 1</script><img src=http://a.test onerror='window.hacked = 1'>"
    rows = [{"name": f"layer {n}", "flops": 1e9 + n * 1e6, "device_ns": 1000 + n} for n in range(10_000)]
    chart = roofline(points({"name": hostile, "device_ns": 10**9}, *rows), roofs())
    out = tmp_path / "r.html"
    out.write_text(save.html([chart], hostile), "utf-8")
    seen = visit(out, ["window.hacked === undefined", "!!document.querySelector('canvas')"], tmp_path)
    assert seen.errors == []
    assert seen.answers == [True, True]
    assert [r for r in seen.requests if not r.startswith("file:")] == []
