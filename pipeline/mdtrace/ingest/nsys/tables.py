"""Which tables hold events, who reads them, and why the others are not read."""

import re
from collections.abc import Callable, Iterable

from mdtrace.ingest.nsys import device_ops, gpu_metrics, host_ranges, launches, nvtx
from mdtrace.ingest.nsys.task import Task

Handler = Callable[[Task], None]

# In the order in which rows are staged. Some versions put a number behind a name (NVTX_EVENTS_V2).
EVENTS: tuple[tuple[str, Handler], ...] = (
    ("CUPTI_ACTIVITY_KIND_KERNEL", device_ops.kernels),
    ("CUPTI_ACTIVITY_KIND_MEMCPY", device_ops.copies),
    ("CUPTI_ACTIVITY_KIND_MEMSET", device_ops.sets),
    ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", device_ops.synchronisations),
    ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", device_ops.graphs),
    ("CUPTI_ACTIVITY_KIND_CUDA_EVENT", device_ops.event_records),
    ("CUPTI_ACTIVITY_KIND_RUNTIME", launches.api_calls),
    ("NVTX_EVENTS", nvtx.nvtx_events),
    ("CUBLAS_EVENTS", host_ranges.library_ranges),
    ("CUDNN_EVENTS", host_ranges.library_ranges),
    ("MPI_COLLECTIVES_EVENTS", host_ranges.library_ranges),
    ("MPI_P2P_EVENTS", host_ranges.library_ranges),
    ("MPI_START_WAIT_EVENTS", host_ranges.library_ranges),
    ("MPI_OTHER_EVENTS", host_ranges.library_ranges),
)
# Read once it is known which processes the file has.
LATER: tuple[tuple[str, Handler], ...] = (
    ("PROFILER_OVERHEAD", host_ranges.overhead),
    ("CUPTI_ACTIVITY_KIND_OVERHEAD", host_ranges.overhead),
    ("GPU_METRICS", gpu_metrics.gpu_metrics),
)
WORK_TABLES = (*(name for name, _ in EVENTS[:3]), "CUPTI_ACTIVITY_KIND_GRAPH_TRACE")
HOST_TABLES = tuple(name for name, _ in EVENTS[7:])

_SKIPPED: tuple[tuple[str, str], ...] = (
    (r"OSRT_", "calls of the operating system are not read"),
    (r"(SCHED|COMPOSITE|PERF|PMU|UNCORE)_?", "samples and scheduling of CPUs are not read"),
    (r"CUDA_GRAPH_", "creation of CUDA graphs is not read"),
    (r"(CUDA_GPU_MEMORY|CUDA_UM|GPU_MEMORY|MEMORY)_", "memory events of nsys are not read"),
    (r"DIAGNOSTIC_EVENT", "messages of the profiler: counted as diagnostics"),
    (r"(NET|NIC)_", "network counters are not read"),
    (r"(UCP|OPENSHMEM|NVSHMEM)_", "communication below the collectives is not read"),
    (r"(OPENACC|OPENMP|CUPTI_ACTIVITY_KIND_OPENACC)", "OpenACC and OpenMP regions are not read"),
)
_OTHER = "no table of the dataset holds such events"

_NO_EVENTS = re.compile(
    r"ENUM_|META_|TARGET_INFO_|EXPORT_|ANALYSIS_|sqlite_|NVTX_PAYLOAD_|.*CALLCHAINS$|StringIds$|PROCESSES$"
    r"|ProcessStreams$|ThreadNames$|MPI_(RANKS|COMMUNICATORS)$|OSRT_FILE_ACCESS_DESCRIPTORS$"
)
_TIMES = {"start", "timestamp", "rawTimestamp", "startedAt", "startNs"}
# Families of nsys tables. The names of other tables are not quoted in the dataset: they could be anything.
_NAME = re.compile(
    r"(CUPTI|CUDA|CUBLAS|CUDNN|OSRT|MPI|NVTX|SCHED|COMPOSITE|PERF|PMU|UNCORE|GPU|NET|NIC|NVVIDEO|NV_LOAD|FECS"
    r"|OPENGL|OPENACC|OPENMP|OPENSHMEM|VULKAN|D3D11|D3D12|DX12|WDDM|ETW|SLI|UCP|TRACE_PROCESS|GENERIC|KHR|MEMORY"
    r"|DEMOTED|TOTAL_BYTES|DIAGNOSTIC|SYSCALL|SOC|VSYNC|PROFILER)(_[A-Z0-9_]{1,48})?"
)


def versions(tables: Iterable[str], name: str) -> list[str]:
    """The tables of a name, with or without a version behind it."""
    pattern = re.compile(re.escape(name) + r"(?:_V\d+)?")
    return [t for t in tables if pattern.fullmatch(t)]


def skipped(tables: dict[str, tuple[str, ...]]) -> list[tuple[str, str, str]]:
    """Event tables that nobody reads: table, what the dataset calls it, reason."""
    read = {t for name, _ in EVENTS + LATER for t in versions(tables, name)}
    return [
        (table, table if _NAME.fullmatch(table) else "another table", _reason(table))
        for table, columns in tables.items()
        if table not in read and not _NO_EVENTS.match(table) and _TIMES & set(columns)
    ]


def _reason(table: str) -> str:
    return next((reason for pattern, reason in _SKIPPED if re.match(pattern, table)), _OTHER)
