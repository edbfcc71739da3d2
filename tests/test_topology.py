"""The topology model: placements and volumes, the fit, what it refuses, held-out error."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdtrace.errors import InputError, UsageError
from mdtrace.models.topology import Column, Level, Placement, Topology, columns, features
from mdtrace.models.topology_example import EXAMPLE
from mdtrace.models.topology_files import RunEntry, read_topology
from mdtrace.models.topology_fit import fit, unidentified
from mdtrace.models.topology_nnls import independent, nnls, outside
from mdtrace.models.topology_predict import Form, Run, predict
from mdtrace.models.topology_table import coefficients, table
from shared import shared

LEVELS = (Level("nvlink", gpus=2), Level("pcie", gpus=8), Level("net", between=True))
CLUSTER = Topology(LEVELS)


def _best_subset(a: np.ndarray, b: np.ndarray) -> float:
    """Least squared residual over all supports whose least squares is not negative."""
    found = [float(b @ b)]
    for count in range(1, a.shape[1] + 1):
        for support in itertools.combinations(range(a.shape[1]), count):
            x = np.linalg.lstsq(a[:, support], b, rcond=None)[0]
            if (x >= 0).all():
                found.append(float(((a[:, support] @ x - b) ** 2).sum()))
    return min(found)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 7), st.integers(1, 4), st.booleans())
def test_nnls_is_the_best_of_all_supports(seed: int, rows: int, count: int, repeated: bool):
    random = np.random.default_rng(seed)
    a, b = random.normal(size=(rows, count)), random.normal(size=rows)
    if repeated:
        a[:, -1] = 3 * a[:, 0]
    x = nnls(a, b)
    assert (x >= 0).all()
    assert float(((a @ x - b) ** 2).sum()) == pytest.approx(_best_subset(a, b), abs=1e-9)


def test_nnls_of_columns_of_very_different_size():
    a = np.array([[1e-9, 1e6], [2e-9, 1e6], [5e-9, 1e6]])
    assert nnls(a, a @ [3e9, 2e-6]) == pytest.approx([3e9, 2e-6])
    assert nnls(np.zeros((2, 2)), np.array([1.0, 2.0])).tolist() == [0.0, 0.0]


def test_what_is_in_the_row_space():
    rows = np.array([[1.0, 32.0, 0.0], [1.0, 64.0, 0.0], [1.0, 32.0, 0.1]])
    assert outside(np.array([1.0, 16.0, 0.3]), rows) is None
    assert independent(rows) == 3
    assert outside(np.array([1.0, 48.0, 0.0]), rows[:2]) is None
    assert outside(np.array([1.0, 48.0, 0.1]), rows[:2]) is not None
    # Bytes that vary by noise alone tell nothing of a batch.
    noisy = np.array([[1.0, 32.0, 0.10000], [1.0, 32.0, 0.10001]])
    assert independent(noisy) == 1
    assert outside(np.array([1.0, 32.0, 0.2]), noisy) is not None


@pytest.mark.parametrize(
    ("gpus", "nodes", "worst"),
    [(1, 1, None), (2, 1, "nvlink"), (3, 1, "pcie"), (8, 1, "pcie"), (2, 2, "net"), (16, 2, "net")],
)
def test_the_worst_links_of_a_ring(gpus: int, nodes: int, worst: str | None):
    placement = Placement(gpus, nodes, gradient_bytes=4e9, messages=5)
    assert CLUSTER.worst(placement) == worst
    expected = {} if worst is None else {worst: 2 * (gpus - 1) / gpus * 4e9}
    assert CLUSTER.volumes(placement) == pytest.approx(expected)
    assert CLUSTER.rounds(placement) == ({} if worst is None else {worst: 2.0 * (gpus - 1) * 5})


def test_more_gpus_or_nodes_than_any_link_joins():
    with pytest.raises(UsageError, match="joins 9 GPUs of a node"):
        CLUSTER.worst(Placement(9, 1))
    with pytest.raises(UsageError, match="joins 5 nodes"):
        Topology((Level("pcie"), Level("rack", nodes=4, between=True))).worst(Placement(5, 5))


def test_volumes_of_an_exchange_level_by_level():
    golden = json.loads(shared("spec", "golden.json").read_text())["topology"]["hierarchy"]
    topology = Topology((Level("intra", gpus=8), Level("inter", between=True)), "hierarchical")
    volumes = topology.volumes(Placement(64, 8, gradient_bytes=golden["bytes"]))
    assert volumes["intra"] / golden["intra_gb_s"] / 1e6 == pytest.approx(golden["intra_ms"], abs=5e-4)
    assert volumes["inter"] / golden["inter_gb_s"] / 1e6 == pytest.approx(golden["inter_ms"], abs=5e-4)
    flat = Topology(topology.levels).volumes(Placement(64, 8, gradient_bytes=golden["bytes"]))
    assert flat["inter"] / golden["inter_gb_s"] / 1e6 == pytest.approx(golden["flat_ring_64_at_50_gb_s_ms"])


def test_volumes_over_four_levels():
    levels = (*LEVELS[:2], Level("rack", nodes=2, between=True), Level("spine", between=True))
    placement = Placement(32, 4, gradient_bytes=64.0, messages=3)
    found = Topology(levels, "hierarchical").volumes(placement)
    # Rings of 2, 4, 2 and 2 members, of 64, 32, 8 and 4 bytes.
    assert found == {"nvlink": 64.0, "pcie": 48.0, "rack": 8.0, "spine": 4.0}
    hops = Topology(levels, "hierarchical").rounds(placement)
    assert hops == {"nvlink": 6.0, "pcie": 18.0, "rack": 6.0, "spine": 6.0}


def _golden() -> tuple[dict, list[Run]]:
    golden = json.loads(shared("spec", "golden.json").read_text())["topology"]
    size = golden["inputs"]["gradient_gb"] * 1e9
    rows = zip(golden["inputs"]["rows"], golden["inputs"]["step_s"], strict=True)
    return golden, [Run(f"{n}x{b}", _placed(b, n, link, size), time) for (b, n, link), time in rows]


def _placed(batch: float, gpus: int, link: str | None, size: float) -> Placement:
    return Placement(gpus, max(2, gpus // 8) if link == "net" else 1, batch, size)


def test_golden_fit_and_held_out_placements():
    golden, runs = _golden()
    size = runs[0].placement.gradient_bytes
    asked = [_placed(*h["row"], size) for h in golden["held_out"]]
    study = predict(runs, asked, CLUSTER, Form(), weighted=False)
    # The published inputs are rounded to a µs, which moves what a GB takes by a few µs.
    assert study.model.theta == pytest.approx(golden["theta"], abs=3e-6)
    assert 1 / study.model.theta[2:] == pytest.approx(golden["bandwidth_gb_s"], rel=1e-4)
    assert study.model.gamma == 1.0
    accuracies = []
    for held_out, answer in zip(golden["held_out"], study.asked, strict=True):
        step = answer.prediction.step_s
        assert step == pytest.approx(held_out["predicted"], abs=1e-6)
        accuracies.append(1 - abs(step - held_out["true"]) / held_out["true"])
        assert accuracies[-1] == pytest.approx(held_out["accuracy"], abs=2e-6)
    assert np.mean(accuracies) == pytest.approx(golden["mean_accuracy"], abs=1e-6)


COLUMNS = columns(CLUSTER, batch=True, rounds=False)


def test_features():
    assert (
        Column("constant"), Column("batch"),
        Column("volume", "nvlink"), Column("volume", "pcie"), Column("volume", "net"),
    ) == COLUMNS  # fmt: skip
    assert features(CLUSTER, Placement(4, 1, 32, 2e9), COLUMNS).tolist() == [1.0, 32.0, 0.0, 3.0, 0.0]


ROWS = np.array([[1, b, v, 0, 0] for b in (8, 16, 32) for v in (0.0, 1.0, 4.0)] + [[1, 8, 0, 0, 2.0]], float)


def test_weights_make_relative_errors_count():
    times = np.array([1.0, 10.0, 10.2])
    rows = np.array([[1.0, 0], [1.0, 9], [1.0, 9]])
    two = (Column("constant"), Column("batch"))
    assert fit(rows, times, two).step_s(rows[1]) == pytest.approx(10.09802, abs=1e-5)  # Σ 1/T over Σ 1/T²
    assert fit(rows, times, two, weighted=False).step_s(rows[1]) == pytest.approx(10.1)


@pytest.mark.parametrize("gamma", [1.0, 1.7, 3.0, 6.0])
def test_the_overlap_of_compute_and_exchange_is_found(gamma: float):
    theta = np.array([0.5, 0.1, 0.9, 0.0, 0.7])
    own, exchange = ROWS[:, :2] @ theta[:2], ROWS[:, 2:] @ theta[2:]
    times = (own**gamma + exchange**gamma) ** (1 / gamma)
    model = fit(ROWS, times, COLUMNS, overlap=True)
    assert model.gamma == pytest.approx(gamma, rel=0.03)
    assert [model.step_s(row) for row in ROWS] == pytest.approx(times, rel=3e-3)
    new = np.array([1.0, 24.0, 2.0, 0.0, 0.0])
    expected = ((0.5 + 2.4) ** gamma + 1.8**gamma) ** (1 / gamma)
    assert model.step_s(new) == pytest.approx(expected, rel=0.01)
    assert model.parts(new) == pytest.approx((2.9, 1.8), rel=0.05)


def test_overlap_that_is_none_leaves_the_sum():
    times = ROWS @ [0.5, 0.1, 0.9, 0.0, 0.7]
    model = fit(ROWS, times, COLUMNS, overlap=True)
    assert model.gamma == pytest.approx(1.0, abs=1e-3)
    assert model.theta == pytest.approx([0.5, 0.1, 0.9, 0.0, 0.7], abs=2e-3)


def test_why_a_placement_is_not_identified():
    rows = np.array([[1.0, 32, 0, 0, 0], [1.0, 32, 1.0, 0, 0]])
    assert unidentified(np.array([1.0, 32, 2.0, 0, 0]), rows, COLUMNS) is None
    assert unidentified(np.array([1.0, 32, 0, 0, 1.0]), rows, COLUMNS) == "no run uses links of class net"
    assert (
        unidentified(np.array([1.0, 64, 0, 0, 0]), rows, COLUMNS)
        == "all runs have a per-GPU batch of 32, none tells what a sample takes"
    )
    # A larger batch came with more GPUs each time: which of the two took longer is not told.
    mixed = np.array([[1.0, 32, 1.0, 0, 0], [1.0, 64, 2.0, 0, 0]])
    assert (
        unidentified(np.array([1.0, 32, 2.0, 0, 0]), mixed, COLUMNS)
        == "the runs differ too little to tell apart sample on each GPU, links nvlink"
        " (2 independent, 3 needed)"
    )


def _runs(placements: list[Placement]) -> list[Run]:
    """10 ms, 1 ms a sample, 20 and 100 ms a GB inside and between nodes."""
    simple = Topology((Level("in"), Level("net", between=True)))
    wanted = columns(simple, batch=True, rounds=False)
    theta = np.array([0.01, 0.001, 0.02, 0.1])
    return [Run(f"r{i}", p, float(features(simple, p, wanted) @ theta)) for i, p in enumerate(placements)]


SIMPLE = Topology((Level("in"), Level("net", between=True)))


def test_each_placement_is_left_out_once():
    runs = _runs([
        Placement(1, 1, 8, 1e9), Placement(1, 1, 16, 1e9), Placement(2, 1, 8, 1e9), Placement(4, 1, 8, 1e9),
        Placement(4, 1, 16, 1e9), Placement(8, 2, 8, 1e9), Placement(16, 4, 8, 1e9),
    ])  # fmt: skip
    runs[5] = Run("off", runs[5].placement, runs[5].step_s * 1.1)
    study = predict(runs, [Placement(32, 8, 8, 1e9)], SIMPLE, Form())
    errors = [m.error for m in study.runs]
    # Without it, the runs of 16 GPUs alone tell what the net takes, and these are exact.
    assert errors[:5] == pytest.approx([0.0] * 5, abs=2e-2)
    assert errors[5] == pytest.approx(1 / 1.1 - 1, abs=1e-9)
    assert study.held_out == pytest.approx((np.mean(np.abs(errors)), max(np.abs(errors)), 7))
    assert study.accuracy == pytest.approx(1 - np.mean(np.abs(errors)))
    assert study.runs[5].fitted.step_s > study.runs[5].held_out.step_s  # pulled towards it
    assert any("32 GPUs lie beyond the runs (1 to 16)" in note for note in study.notes)
    rows = table(study).to_pylist()
    assert [r["run"] for r in rows] == [None, "r0", "r1", "r2", "r3", "r4", "off", "r6"]
    step = study.asked[0].prediction.step_s
    assert rows[0]["predicted_ns"] == round(step * 1e9)
    assert rows[0]["samples_per_s"] == pytest.approx(32 * 8 / step)
    assert rows[0]["measured_ns"] is None
    assert rows[6]["accuracy"] == pytest.approx(1 / 1.1)


def test_a_feature_seen_once_has_no_held_out_error():
    runs = _runs([Placement(1, 1, 8, 1e9), Placement(2, 1, 8, 1e9), Placement(8, 2, 8, 1e9)])
    study = predict(runs, [Placement(16, 2, 8, 1e9)], SIMPLE)
    assert study.asked[0].prediction.step_s == pytest.approx(0.018 + 0.1 * 1.875)
    assert study.form == Form()
    assert study.runs[2].held_out.reason == "no run uses links of class net"
    assert study.runs[2].error is None
    assert "Links net are seen on one placement: what they add has no held-out error." in study.notes


def test_what_the_runs_do_not_tell_is_refused():
    runs = _runs([Placement(1, 1, 8, 1e9), Placement(2, 1, 8, 1e9), Placement(4, 1, 8, 1e9)])
    with pytest.raises(InputError, match="8 GPUs on 2 nodes, batch 8: not identified: no run uses links"):
        predict(runs, [Placement(8, 2, 8, 1e9)], SIMPLE)
    with pytest.raises(InputError, match="per-GPU batch of 8, none tells what a sample takes"):
        predict(runs, [Placement(8, 1, 16, 1e9)], SIMPLE)
    with pytest.raises(InputError, match="no run to predict from"):
        predict([], [Placement(8, 1, 16, 1e9)], SIMPLE)


def test_unknown_batches_are_taken_as_the_same():
    places = [Placement(1), Placement(2, 1, None, 1e9), Placement(4, 1, None, 1e9)]
    runs = [Run("a", places[0], 1.0), Run("b", places[1], 1.1), Run("c", places[2], 1.15)]
    study = predict(runs, [Placement(8, 1, None, 1e9)], SIMPLE)
    assert study.asked[0].prediction.step_s == pytest.approx(1.175)  # 1 + 0.1·1.75
    assert study.model.columns == (Column("constant"), Column("volume", "in"), Column("volume", "net"))
    assert "Batches are not known of all runs: they are taken to be the same." in study.notes
    assert table(study).to_pylist()[0]["samples_per_s"] is None


def test_latency_is_a_coefficient_where_it_predicts_better():
    def run(gpus: int, nodes: int) -> Run:
        volume, hops = 2 * (gpus - 1) / gpus, 2 * (gpus - 1) * 10
        time = 0.05 + (0.01 * volume + 2e-4 * hops if nodes > 1 else 0.002 * volume + 1e-5 * hops)
        return Run(f"{gpus}", Placement(gpus, nodes, 8, 1e9, 10), time)

    runs = [run(*p) for p in [(1, 1), (2, 1), (4, 1), (8, 1), (4, 2), (8, 2), (16, 2), (32, 4)]]
    study = predict(runs, [run(64, 8).placement], SIMPLE)
    assert study.form.rounds
    assert study.asked[0].prediction.step_s == pytest.approx(run(64, 8).step_s, rel=0.01)
    assert study.tried == 4
    meanings = {r["coefficient"]: r["meaning"] for r in coefficients(study).to_pylist()}
    assert meanings["latency of net"] == "200 µs for each hop"
    assert meanings["links net"] == "exchange at 100 GB/s"


def test_parts_of_a_step_that_the_runs_do_not_tell_apart():
    place = Placement(4, 1, 8, 1e9)
    study = predict([Run("a", place, 0.5)], [place], SIMPLE)
    found = study.asked[0].prediction
    assert found.step_s == pytest.approx(0.5)
    assert (found.compute_s, found.exchange_s) == (None, None)
    known = predict([Run("a", place, 0.5), Run("b", Placement(1, 1, 8), 0.3)], [place], SIMPLE)
    assert known.asked[0].prediction.compute_s == pytest.approx(0.3)
    assert known.asked[0].prediction.exchange_s == pytest.approx(0.2)


def test_a_model_that_does_not_hold_says_so():
    runs = [Run("two", Placement(2, 1, 8, 1e9), 0.144), Run("four", Placement(4, 1, 8, 1e9), 0.435)]
    study = predict(runs, [Placement(8, 1, 8, 1e9)], SIMPLE)
    assert any("misses the runs it was fitted on by up to 40 %" in note for note in study.notes)
    assert not any("misses" in note for note in predict(runs[:1], [runs[0].placement], SIMPLE).notes)


def test_coefficients_that_are_not_told_apart_have_no_value():
    runs = [Run("a", Placement(1, 1, 8), 1.0), Run("b", Placement(2, 1, 16, 1e9), 2.0)]
    study = predict(runs, [Placement(1, 1, 8)], SIMPLE)
    rows = {r["coefficient"]: r for r in coefficients(study).to_pylist()}
    assert rows["sample on each GPU"]["value"] is None
    assert rows["sample on each GPU"]["meaning"] == "not told apart from others"
    assert rows["links net"]["meaning"] == "no run shows it"


def test_the_topology_file_of_the_help(tmp_path: Path):
    (tmp_path / "topo.toml").write_text(EXAMPLE)
    topology, runs = read_topology(tmp_path / "topo.toml")
    assert topology == Topology(LEVELS)
    assert runs == {"job16": RunEntry(nodes=2, batch=32.0)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("level = 3", "Expected 'array', got 'int' at 'level'"),
        ("[[level]]\nname = 'a'\nspeed = 3", "unknown field 'speed'"),
        ("[[level]]\nname = 'a'\ngpus = 0", "at 'level"),
        ("exchange = 'ring'", "missing required field 'level'"),
        ("[[level]]\nname = 'a'\n[[level]]\nname = 'a'\nnodes = 2", "two levels have the same name"),
        ("[[level]]\nname = 'a'\nnodes = 2\n[[level]]\nname = 'b'", "stands before one inside"),
        ("[[level]]\nname = 'a'\ngpus = 4\n[[level]]\nname = 'b'\ngpus = 2", "b joins no more than a"),
        ("[[level]]\nname = 'a'\ngpus = 4\nnodes = 2", "joins GPUs of a node and nodes"),
        ("[[level]", "no topology file"),
        ("a = " + "[" * 5000, "no topology file"),
    ],
)
def test_a_topology_file_that_is_none(tmp_path: Path, text: str, message: str):
    path = tmp_path / "topo.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_topology(path)


def test_a_topology_file_that_cannot_be_read(tmp_path: Path):
    with pytest.raises(InputError, match="cannot be read"):
        read_topology(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        read_topology(tmp_path / "binary.toml")
