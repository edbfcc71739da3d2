"""Layers and phases: module frames, sequence numbers, accumulations, NVTX ranges, FSDP units."""

from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from link_stage import Rows, column, link, link_file, rows
from mdtrace.link.process import Linked
from shared import shared

FORWARD, BACKWARD = 1, 2  # threads


def _frame(name: str, start: int, end: int, thread: int = FORWARD) -> dict[str, Any]:
    return {
        "name": f"nn.Module: {name}",
        "kind": "python",
        "thread_id": thread,
        "start_ns": start,
        "end_ns": end,
    }


def _op(name: str, start: int, end: int, thread: int = FORWARD, **more: Any) -> dict[str, Any]:
    return {"name": name, "thread_id": thread, "start_ns": start, "end_ns": end, **more}


def _node(name: str, start: int, end: int, sequence: int | None, **more: Any) -> dict[str, Any]:
    more = {"sequence": sequence, "forward_thread_id": 1, **more}
    return _op(f"autograd::engine::evaluate_function: {name}", start, end, BACKWARD, **more)


def _paths(linked: Linked) -> list[str | None]:
    """The layer path of each host row."""
    paths = column(linked, "layers", "path")
    return [None if i is None else paths[i] for i in column(linked, "host_ops", "layer_id")]


def _range(name: str, start: int, end: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "nvtx", "start_ns": start, "end_ns": end, **more}


MODEL: Rows = [
    _frame("Net_0", 0, 100),
    _frame("Linear_0", 10, 40),
    _op("aten::linear", 12, 38, sequence=5),
    _op("aten::addmm", 14, 30, sequence=5),
    _frame("ReLU_0", 50, 80),
    _op("aten::relu", 55, 70, sequence=6),
    _op("aten::mse_loss", 110, 120, sequence=7),
]


def test_paths_of_modules_and_what_lies_in_them(tmp_path: Path) -> None:
    linked = link(tmp_path, host_ops=[*MODEL, _op("aten::empty", 90, 95), _op("aten::copy_", 200, 210)])
    assert column(linked, "layers", "path") == ["Net_0", "Net_0/Linear_0", "Net_0/ReLU_0"]
    assert column(linked, "layers", "name") == ["Net_0", "Linear_0", "ReLU_0"]
    assert column(linked, "layers", "parent_layer_id") == [None, 0, 0]
    assert column(linked, "layers", "depth") == [0, 1, 1]
    assert column(linked, "layers", "origin") == ["module"] * 3
    assert column(linked, "host_ops", "layer_id") == [0, 1, 1, 1, 2, 2, None, 0, None]
    assert column(linked, "host_ops", "phase") == ["forward"] * 6 + [None, "forward", None]


def test_backward_has_the_layer_of_its_forward(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=[
            *MODEL,
            _node("MseLossBackward0", 200, 210, 7),
            _node("ReluBackward0", 220, 240, 6),
            _op("ReluBackward0", 222, 238, BACKWARD, sequence=6, forward_thread_id=1),
            _op("aten::threshold_backward", 225, 235, BACKWARD),
            _node("AddmmBackward0", 250, 290, 5),
            _op("aten::mm", 255, 265, BACKWARD),
            _node("torch::autograd::AccumulateGrad", 300, 320, None),
            _op("torch::autograd::AccumulateGrad", 302, 318, BACKWARD),
            _op("aten::add_", 304, 308, BACKWARD),
        ],
    )
    linear, relu = "Net_0/Linear_0", "Net_0/ReLU_0"
    assert _paths(linked)[len(MODEL) :] == [None, relu, relu, relu, linear, linear, linear, linear, linear]
    phase = column(linked, "host_ops", "phase")
    assert phase[len(MODEL) :] == ["backward"] * 9
    assert phase[len(MODEL) - 1] == "forward"  # the loss: outside the modules, but it made a node


def test_sequence_numbers_come_again_in_the_next_step(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=[
            _frame("A_0", 0, 10),
            _op("aten::a", 1, 9, sequence=1),
            _node("ABackward0", 20, 30, 1),
            _frame("B_0", 40, 50),
            _op("aten::b", 41, 49, sequence=1),
            _node("BBackward0", 60, 70, 1),
        ],
    )
    assert _paths(linked) == ["A_0", "A_0", "A_0", "B_0", "B_0", "B_0"]


def test_the_last_operator_before_the_node_made_it(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=[
            _frame("A_0", 0, 10),
            _op("aten::detach", 1, 9, sequence=1),  # makes no node: the number stays
            _frame("B_0", 20, 30),
            _op("aten::b", 21, 29, sequence=1),
            _node("BBackward0", 60, 70, 1),
        ],
    )
    assert _paths(linked)[-1] == "B_0"


def test_recomputed_forward_is_backward_in_its_own_layer(tmp_path: Path) -> None:
    """Checkpointing runs the block again on autograd's thread, without the frames around it, and counts the
    sequence numbers of that thread, which may be those of the forward thread too."""
    linked = link(
        tmp_path,
        host_ops=[
            _frame("Net_0", 0, 100),
            _frame("Block_0", 10, 60),
            _frame("Linear_0", 20, 50),
            _op("aten::linear", 22, 48),
            _op("CheckpointFunction", 12, 58, sequence=30),
            _frame("Head_0", 70, 90),
            _op("aten::head", 72, 88, sequence=31),
            _node("HeadBackward0", 200, 210, 31),
            _node("CheckpointFunctionBackward", 220, 400, 30),
            _frame("Block_0", 230, 280, BACKWARD),
            _frame("Linear_0", 240, 270, BACKWARD),
            _op("aten::linear", 242, 268, BACKWARD, sequence=31),
            _node("LinearBackward0", 300, 350, 31, forward_thread_id=2),
            _op("aten::mm", 310, 340, BACKWARD),
        ],
    )
    inner = "Net_0/Block_0/Linear_0"
    assert _paths(linked)[7:] == [
        "Net_0/Head_0",
        "Net_0/Block_0",
        "Net_0/Block_0",
        inner,
        inner,
        inner,
        inner,
    ]
    assert column(linked, "host_ops", "phase")[8:] == ["backward"] * 6


def test_a_shared_module_without_its_frames_is_not_put_anywhere(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=[
            _frame("A_0", 0, 10),
            _frame("Rope_0", 2, 8),
            _frame("B_0", 20, 30),
            _frame("Rope_0", 22, 28),
            _frame("Rope_0", 40, 50),
        ],
    )
    assert _paths(linked) == ["A_0", "A_0/Rope_0", "B_0", "B_0/Rope_0", "Rope_0"]


def test_optimizer_and_annotations(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=[
            _op("DistributedDataParallel.forward", 0, 10, kind="annotation"),
            _op("aten::a", 2, 8),
            _op("backward", 20, 60, kind="annotation"),
            _op("aten::b", 22, 28),
            _op("Optimizer.step#SGD.step", 40, 50, kind="annotation"),  # inside a backward hook
            _op("aten::c", 42, 48),
            _op("Optimizer.zero_grad#SGD.zero_grad", 70, 80, kind="annotation"),
            _op("aten::d", 90, 95),
        ],
    )
    expected = ["forward", "forward", "backward", "backward", "optimizer", "optimizer", "optimizer", None]
    assert column(linked, "host_ops", "phase") == expected
    assert column(linked, "host_ops", "layer_id") == [None] * 8


def test_nvtx_ranges_are_layers(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=[
            _range("step 0", 0, 200),
            _range("forward", 0, 90),
            _range("layer:block1", 10, 80),
            _range("conv", 20, 60),
            _op("aten::conv2d", 25, 55, sequence=3),
            _range("ncclAllReduce", 30, 40, domain="NCCL"),
            _range("allreduce grads", 60, 70),
            _range("cub::DeviceScan", 42, 48, domain="CCCL"),
            _range("backward", 100, 180),
            _node("ConvolutionBackward0", 110, 150, 3, thread_id=FORWARD, forward_thread_id=None),
            _range("crosses threads", 0, 500, form="async"),
        ],
    )
    assert column(linked, "layers", "path") == ["block1", "block1/conv"]
    assert column(linked, "layers", "origin") == ["nvtx", "nvtx"]
    one, two = "block1", "block1/conv"
    assert _paths(linked) == [None, None, one, two, two, two, one, two, None, two, None]
    expected = [None, *["forward"] * 7, "backward", "backward", None]
    assert column(linked, "host_ops", "phase") == expected


def test_fsdp_units_where_nothing_else_is_recorded(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=[
            _op("FSDP::pre_forward", 0, 5),
            _op("FSDP::pre_forward (blocks.1._checkpoint_wrapped_module)", 10, 20),
            _op("aten::mm", 30, 40),
            _op("FSDP::post_forward (blocks.1._checkpoint_wrapped_module)", 50, 60),
            _op("aten::add", 70, 80),
            _op("FSDP::post_forward", 90, 95),
            _op("aten::mul", 100, 110),
            _op("FSDP::pre_forward (blocks.2)", 120, 130),
        ],
    )
    assert _paths(linked) == ["(root)", "blocks.1", "blocks.1", "blocks.1", "(root)", "(root)", None, None]
    assert column(linked, "host_ops", "phase")[2:5] == ["forward", "forward", "forward"]


def test_device_work_has_the_layer_around_its_call(tmp_path: Path) -> None:
    """A Triton kernel is launched in the module's frame itself; a bucket's collective is of no one layer."""
    host_ops = [
        *MODEL,
        _node("AddmmBackward0", 250, 290, 5),
        _node("torch::autograd::AccumulateGrad", 300, 320, None),
    ]
    calls = [(15, FORWARD), (45, FORWARD), (260, BACKWARD), (305, BACKWARD), (310, BACKWARD), (500, FORWARD)]
    linked = link(
        tmp_path,
        host_ops=host_ops,
        launches=[
            {"start_ns": t, "dur_ns": 1, "thread_id": thread, "correlation": i}
            for i, (t, thread) in enumerate(calls)
        ],
        device_ops=[
            {
                "start_ns": 1000 + i,
                "dur_ns": 1,
                "correlation": i,
                "class": "communication" if i == 4 else "compute",
            }
            for i in range(7)
        ],
    )
    assert column(linked, "device_ops", "layer_id") == [1, 0, 1, 1, None, None, None]
    expected = ["forward", "forward", "backward", "backward", "backward", None, None]
    assert column(linked, "device_ops", "phase") == expected


def test_a_runaway_recursion_ends(tmp_path: Path) -> None:
    depth = 500
    linked = link(tmp_path, host_ops=[_frame("Deep_0", i, 10_000 - i) for i in range(depth)])
    assert len(column(linked, "layers", "path")) == 64
    assert column(linked, "host_ops", "layer_id") == [min(i, 63) for i in range(depth)]


def test_coverage_of_a_real_training_run(tmp_path: Path) -> None:
    """99 % of the time of compute kernels whose launch is in the file; the rest is loss and optimizer."""
    path = shared("traces", "kineto", "resnet50_mi300x_rank0of8.json.gz")
    ((staged, linked),) = link_file(path, tmp_path)
    device = rows(staged, linked, "device_ops")
    compute = device.filter(
        pc.and_(pc.equal(device.column("class"), "compute"), device.column("launch_id").is_valid())
    )
    with_layer = compute.filter(compute.column("layer_id").is_valid())
    total, covered = (pc.sum(t.column("dur_ns")).as_py() for t in (compute, with_layer))
    assert (total, covered) == (19234094, 19055994)
    paths = column(linked, "layers", "path")
    assert len(paths) == 73
    assert all(p.startswith("DistributedDataParallel_0") for p in paths)
    assert (
        "DistributedDataParallel_0/ResNet_0/CheckpointWrapper_3/Sequential_5/BasicBlock_6/Conv2d_15" in paths
    )


def test_layers_are_the_same_on_every_rank(tmp_path: Path) -> None:
    found = []
    for rank in range(2):
        path = shared("traces", "own", "torch_gloo", "alexnet_w2", f"rank{rank}.pt.trace.json.gz")
        ((_, linked),) = link_file(path, tmp_path / str(rank))
        found.append(column(linked, "layers", "path"))
    assert found[0] == found[1]
    assert len(found[0]) == 22


def test_threads_count_sequence_numbers_each_for_itself(tmp_path: Path) -> None:
    """The recomputed block's 30 lies between the stem's forward 30 and its node; the thread tells."""
    linked = link(
        tmp_path,
        host_ops=[
            _frame("Stem_0", 0, 20),
            _op("aten::stem", 2, 18, sequence=30),
            _frame("Block_0", 30, 60),
            _op("CheckpointFunction", 32, 58, sequence=31),
            _frame("Head_0", 70, 90),
            _op("aten::head", 72, 88, sequence=32),
            _node("HeadBackward0", 100, 110, 32),
            _node("CheckpointFunctionBackward", 120, 200, 31),
            _frame("Block_0", 130, 150, BACKWARD),
            _op("aten::inner", 132, 148, BACKWARD, sequence=30),
            _node("InnerBackward0", 160, 180, 30, forward_thread_id=2),
            _node("StemBackward0", 210, 220, 30),
        ],
    )
    assert _paths(linked)[6:] == ["Head_0", "Block_0", "Block_0", "Block_0", "Block_0", "Stem_0"]
