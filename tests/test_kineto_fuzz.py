"""Whatever the events hold: no exception, and each one is stored or counted."""

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kineto_read import read_text

_ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "7", "stream 7", "0x10", "1e5", "[0, 1]", "\ud800", "null", "é"]),
    st.lists(st.integers(-1, 2**33), max_size=3),
    st.just({"a": [1]}),
)
_CATEGORIES = (
    "cpu_op", "Operator", "user_annotation", "python_function", "overhead", "cuda_runtime", "Runtime",
    "kernel", "gpu_memcpy", "Memset", "cuda_sync", "ac2g", "Trace", "cpu_instant_event", "xpu_driver",
    "mystery",
)  # fmt: skip
_ARGS = (
    "External id", "external id", "correlation", "stream", "device", "grid", "block", "bytes",
    "graph node id", "Input Dims", "Input type", "Concrete Inputs", "Ev Idx", "Python id", "Sequence number",
    "Fwd thread id",
    "Collective name", "Process Group Ranks", "Group size", "Seq", "Comms Id", "Bytes", "Device Id", "kind",
    "est. achieved occupancy %", "wait_on_stream", "shared memory",
)  # fmt: skip
_EVENTS = st.lists(
    st.fixed_dictionaries(
        {"ph": st.sampled_from(["X", "X", "X", "X", "i", "M", "s", "E"])},
        optional={
            "cat": st.sampled_from(_CATEGORIES),
            "name": st.one_of(st.sampled_from(["[memory]", "aten::mm", "nccl:all_reduce"]), _ODD),
            "pid": st.one_of(st.sampled_from([100, 100, 101, 0]), _ODD),
            "tid": st.one_of(st.just(7), _ODD),
            "ts": st.one_of(st.floats(0, 1e6), _ODD),
            "dur": st.one_of(st.floats(0, 1e3), _ODD),
            "args": st.one_of(st.dictionaries(st.sampled_from(_ARGS), _ODD, max_size=5), _ODD),
        },
    ),
    max_size=12,
)


@settings(max_examples=80, deadline=None)
@given(_EVENTS, st.dictionaries(st.sampled_from(["baseTimeNanoseconds", "deviceProperties"]), _ODD), _ODD)
def test_any_values(events: list[dict[str, Any]], document: dict[str, Any], job: Any) -> None:
    text = json.dumps({**document, "distributedInfo": job, "traceEvents": events})
    with tempfile.TemporaryDirectory() as folder:
        trace = read_text(Path(folder), text)
        assert trace.stored + trace.skipped == len(events)
        assert trace.staged == trace.stored


@settings(max_examples=50, deadline=None)
@given(_EVENTS.filter(bool), st.data())
def test_cut_anywhere(events: list[dict[str, Any]], data: st.DataObject) -> None:
    """Rows of a file cut in its array are the first rows of the whole one."""
    text = json.dumps(events)
    cut = data.draw(st.integers(1, len(text)))
    with tempfile.TemporaryDirectory() as folder:
        trace = read_text(Path(folder), text[:cut])
        assert trace.staged == trace.stored <= len(events)
