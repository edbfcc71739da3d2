"""What to do next about a loss, by its cause."""

_STRAGGLER = (
    ("host sleep", "Remove the sleep or blocking call in that rank's step."),
    ("data loading", "Give that rank's loader more workers, prefetch further, or move its data closer."),
    ("host idle", "See what that rank's host waits for in that part of the step: CPU share, I/O."),
    ("host work", "Look at what that rank's host runs and the others do not; move it off the step."),
    ("more compute", "Balance the work: that rank computes more than the others (batch, sequence, experts)."),
    ("slower device", "Check that rank's device: clocks, temperature, power cap; swap it if it stays."),
    ("slower host", "Check that rank's host: CPU frequency, other jobs, NUMA binding."),
    ("memory copies", "Pin that rank's memory and copy ahead; check its PCIe link's width and speed."),
    ("runtime call", "Keep allocations, synchronisations and module loads out of that rank's step."),
    ("late start", "Find what that rank does between steps: logging, checkpoints, data."),
)  # fmt: skip


def straggler(cause: str | None) -> str:
    """About a late rank, by the cause that `straggler_ranks` names."""
    for name, text in _STRAGGLER:
        if cause and cause.startswith(name):
            return text
    return (
        "The capture does not tell why: record that rank's host and device (PyTorch profiler or Nsight "
        "Systems) and another's, and compare what runs before the collectives."
    )


def network(phi: float | None, of_limit: float | None, *, matched: bool) -> str:
    """About exposed communication.

    Args:
        phi: share that compute hides. of_limit: bus bandwidth over the link's limit. None: not known.
        matched: waiting for other ranks is known, and taken out.
    """
    steps = []
    if not matched:
        steps.append(
            "Add the traces of the other ranks (mdtrace ingest FILES --add DATASET): long collectives may be "
            "waiting."
        )
    if of_limit is not None and of_limit < 0.3:
        steps.append(
            "Messages are far from the link's limit: compare fusion plans (mdtrace fusion DATASET), and "
            "check that the library takes the fast links."
        )
    elif of_limit is not None:
        steps.append(
            "The links are near their limit: send less (16-bit or compressed gradients, sharding, fewer "
            "synchronised steps)."
        )
    if phi is not None and phi < 0.7:
        steps.append("Start it while backward still computes: order of buckets, prefetch for FSDP.")
    return " ".join(steps) or "Compare fusion plans: mdtrace fusion DATASET."


_IDLE = {
    "host_ns": "The host is too slow to launch: larger batches, CUDA graphs or torch.compile, no "
    "synchronisation (.item(), prints) and no data loading inside the step.",
    "launch_ns": "Launch calls take long: fewer, larger kernels; check the profiler's own cost.",
    "dependency_ns": "Streams wait for each other: order the work so that something else can run.",
    "queue_ns": "Work is queued but not started: look for other processes on the device.",
    "unknown_ns": "Capture device activity with its launches to see what is waited for.",
}  # fmt: skip


_IDLE_HOST = (
    "The job computes on the CPU: see what runs outside operators in the step (data loading, Python, waits "
    "for peers) with the profiler's stacks (with_stack=True)."
)


def idle(cause: str, *, on_host: bool = False) -> str:
    """About idle devices, by the column of `idle_breakdown` that holds most.

    Args:
        on_host: the account is of a job that computes on the CPU.
    """
    return _IDLE_HOST if on_host else _IDLE[cause]


_KERNELS = {
    "compute": "Check layouts (channels last, multiples of 8 or 16), element types and library versions.",
    "memory": "Fuse what moves data (torch.compile, fused optimizers and normalisations), and keep "
    "activations in 16 bits.",
    "balanced": "Fuse what moves data, and check layouts and element types of the largest products.",
    "latency": "Kernels are too small for the device: larger batches, fused kernels (torch.compile), graphs.",
}


_KERNELS_HOST = {
    **_KERNELS,
    "latency": "Operators are far from what the cores could do: check the threads of a rank "
    "(torch.set_num_threads, binding to cores), larger batches, fused operators (torch.compile).",
    "memory": "Fuse what moves data (torch.compile), and bind each rank to the memory of its socket.",
}


def kernels(bound: str | None, *, on_host: bool = False) -> str:
    """About compute under its roofs, by what binds most of it.

    Args:
        on_host: it is of operators on the CPU.
    """
    if on_host and bound in _KERNELS_HOST:
        return _KERNELS_HOST[bound]
    return _KERNELS.get(
        bound or "", "See the layers' points under the roofs: mdtrace roofline DATASET -o r.html"
    )


def copies(name: str | None) -> str:
    """About exposed copies, by the name of the most costly."""
    kind = (name or "").lower()
    if "dtod" in kind or "memset" in kind or "device -> device" in kind:
        return (
            "Copies within the device: avoid .clone(), .contiguous() and layout changes, write buckets in "
            "place (gradient_as_bucket_view=True)."
        )
    if "dtoh" in kind:
        return "Copies to the host: no .item(), .cpu() or prints of tensors in the step; copy asynchronously."
    if "pinned" in kind:
        return (
            "They come from pinned memory already: overlap them with compute (non_blocking=True on a stream "
            "of their own, one batch ahead)."
        )
    return "Copy from pinned memory with non_blocking=True, on a stream of its own, one batch ahead."
