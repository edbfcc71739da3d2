"""Measuring this machine: what is measured, and the file it makes."""

import threading
from pathlib import Path

import numpy as np
import pytest

from mdtrace.hardware import calibrate as room
from mdtrace.hardware.calibrate import Calibration, Measured, as_toml, calibrate, measured
from mdtrace.hardware.table import read_file


def test_median_and_spread() -> None:
    assert measured([10.0, 12.0, 11.0]) == Measured(11.0, pytest.approx(2 / 11), 3)


def test_rates_are_those_of_the_work() -> None:
    # A product of 64 × 64 is 524 288 FLOP: no machine does less than 1e6 or more than 1e14 a second.
    assert 1e6 < room.gemm(np.float32, 64, 3).per_s < 1e14
    assert 1e6 < room.triad(1 << 12, 3).per_s < 1e14


def test_the_ring_sums() -> None:
    import socket

    ranks = 3
    pairs = [
        socket.socketpair() for _ in range(ranks)
    ]  # rank r sends on pairs[r][0], its right reads pairs[r][1]
    values = [np.arange(6, dtype=np.float32) * (rank + 1) for rank in range(ranks)]
    rings = [room._Ring(r, ranks, pairs[r - 1][1], pairs[r][0]) for r in range(ranks)]
    for pair in pairs:
        for end in pair:
            end.setblocking(False)
    threads = [
        threading.Thread(target=ring.all_reduce, args=(v,)) for ring, v in zip(rings, values, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    for pair in pairs:
        for end in pair:
            end.close()
    for value in values:
        assert value.tolist() == [0, 6, 12, 18, 24, 30]


@pytest.mark.slow
def test_a_machine_is_measured_and_its_file_read(tmp_path: Path) -> None:
    found = calibrate(runs=3, scale=0.05)
    assert set(found.gemm) == {"f64", "f32"}
    assert found.bus.per_s > 0
    assert found.latency_ns > 0
    file = tmp_path / "my.toml"
    file.write_text(as_toml(found, "2026-01-02"), "utf-8")
    entry = read_file(file)["cpu"]
    assert entry.kind == "cpu"
    assert entry.matrix_tflops["f32"] == pytest.approx(found.gemm["f32"].per_s / 1e12, rel=1e-3)
    assert entry.memory_gb_per_s == pytest.approx(found.triad.per_s / 1e9, rel=1e-3)
    assert entry.link_gb_per_s == pytest.approx(found.bus.per_s / 1e9, rel=1e-3)


def test_the_file_says_what_was_measured(tmp_path: Path) -> None:
    one = Measured(2e11, 0.125, 7)
    found = Calibration(
        'A "quoted" \\CPU\n', 8, {"f64": one, "f32": one}, Measured(5e10, 0.5, 7), one, 1500.0
    )
    file = tmp_path / "my.toml"
    file.write_text(as_toml(found, "2026-01-02"), "utf-8")
    entry = read_file(file)["cpu"]
    assert entry.name == "A quoted CPU, 8 cores"
    assert entry.matrix_tflops == {"f64": 0.2, "f32": 0.2}
    assert entry.link_latency_us == 1.5
    assert entry.sources.memory == "measured 2026-01-02: triad, median of 7 runs, spread 50 %"
