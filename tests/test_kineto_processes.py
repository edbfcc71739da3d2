"""Several host processes in one file: whose the device activity is."""

from pathlib import Path

from kineto_read import event, kernel, read_events


def launch(pid: int, ts: float, correlation: int) -> dict[str, object]:
    return event("cuda_runtime", "cudaLaunchKernel", ts, 1, pid, pid, correlation=correlation)


def test_device_rows_follow_correlation(tmp_path: Path) -> None:
    """Both processes use correlation 1 and 2; device 0 is explained by 11, device 1 by 12."""
    trace = read_events(
        tmp_path,
        launch(11, 100, 1), launch(11, 110, 2), launch(11, 115, 4),
        launch(12, 500, 1), launch(12, 510, 2), launch(12, 520, 3),
        kernel("a1", 102, device=0, correlation=1),
        kernel("b1", 503, device=1, correlation=1),
        kernel("a2", 112, device=0, correlation=2),
        kernel("b2", 513, device=1, correlation=2),
        kernel("b3 on the other's device", 523, device=0, correlation=3),
        kernel("a0, launched before the capture", 90, device=0, correlation=77),
        kernel("nobody's device", 90, device=5, correlation=78),
        distributedInfo={"rank": 4, "world_size": 8},
    )  # fmt: skip
    a, b, rest = trace.facts.processes
    assert (a.pid, b.pid, rest.pid) == (11, 12, None)
    assert trace.rows("device_ops", "name") == ["a1", "a2", "a0, launched before the capture"]
    assert trace.rows("device_ops", "name", process=1) == ["b1", "b2", "b3 on the other's device"]
    assert trace.rows("device_ops", "name", process=2) == ["nobody's device"]
    assert [p.rank for p in trace.facts.processes] == [4, None, None]  # 11 comes first of two equals
    assert [d.count for d in trace.facts.diagnostics if d.code == "device_ops_unassigned"] == [1]
    assert trace.stored == 13


def test_collective_arguments_follow_their_kernels(tmp_path: Path) -> None:
    def nccl(ts: float, device: int, elements: int) -> dict[str, object]:
        return kernel(
            "ncclDevKernel_AllReduce(x)", ts, device=device, correlation=device + 1,
            Collective_name="allreduce", In_msg_nelems=elements,
        )  # fmt: skip

    trace = read_events(
        tmp_path,
        launch(11, 1, 1),
        launch(12, 1, 2),
        kernel("a", 2, device=0, correlation=1),
        nccl(3, 1, 100),
        kernel("b", 4, device=1, correlation=2),
        nccl(5, 0, 200),
        nccl(6, 1, 300),
    )
    assert trace.rows("device_ops", "name") == ["a", "ncclDevKernel_AllReduce(x)"]
    assert trace.rows("comm_records", "row", "elements_in") == [(1, 200)]
    assert trace.rows("device_ops", "start_ns", process=1) == [3000, 4000, 6000]
    assert trace.rows("comm_records", "row", "elements_in", process=1) == [(0, 100), (2, 300)]


def test_events_without_a_pid(tmp_path: Path) -> None:
    overhead = event("overhead", "Activity Buffer Request", 1, 1, -1, 0)
    frame = event("python_function", "threading.py(1032): _bootstrap", 0, 9, 0, 0)
    one = read_events(tmp_path, overhead, event("cpu_op", "a", 1), frame)
    assert one.process.pid == 100
    assert one.rows("host_ops", "name") == ["a", overhead["name"], frame["name"]]
    two = read_events(tmp_path, overhead, event("cpu_op", "a", 1), event("cpu_op", "b", 1, pid=200))
    assert [p.pid for p in two.facts.processes] == [100, 200, None]
    assert two.rows("host_ops", "name", process=2) == [overhead["name"]]
    none = read_events(tmp_path, event("cpu_op", "a", 1, pid="CPU functions"), kernel("k", 2))
    assert none.process.pid is None
    assert (len(none.rows("host_ops")), len(none.rows("device_ops"))) == (1, 1)


def test_any_number_of_pids(tmp_path: Path) -> None:
    """Only damage has hundreds of processes in a file; no event is lost and no file handle is wasted."""
    trace = read_events(tmp_path, *(event("cpu_op", "a", i, pid=i + 1) for i in range(3000)))
    assert len(trace.facts.processes) == 101
    assert sum(len(trace.rows("host_ops", process=p)) for p in range(101)) == trace.stored == 3000
