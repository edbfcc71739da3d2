"""How a report says it was captured and exported; what it should have kept to itself."""

from simulate.job import Job
from simulate.nsys_process import Strings
from simulate.nsys_schema import PRODUCT_VERSION, SCHEMA_VERSION
from simulate.placement import Place

PLANTED = "planted-secret"
"""Part of everything that must not leave the file."""

Pair = tuple[str, str]

_SECRETS = {
    "AWS_SECRET_ACCESS_KEY": f"{PLANTED}-key",
    "HF_TOKEN": f"{PLANTED}-token",
    "USER": f"{PLANTED}-user",
    "HOME": f"/home/{PLANTED}-user",
    "PWD": f"/home/{PLANTED}-user/project",
}


def capture(job: Job, places: list[Place], strings: Strings, secrets: bool) -> list[Pair]:
    """META_DATA_CAPTURE: options, and for each process what it was started with."""
    rows = [
        ("DEVICE_ID", "Local (CLI)"),
        ("CAPTURE_EVENT_TYPE", "NvtxEvents"),
        ("CAPTURE_EVENT_TYPE", "Cuda"),
        ("CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node"),
    ]
    for number, place in enumerate(places):
        rows += _process(job, place, f"PROCESS_{number}", secrets)
    if secrets:
        # Older exports keep the whole block as one string.
        block = "\0".join(f"{name}={value}" for name, value in _SECRETS.items())
        strings.number(block)
    return rows


def _process(job: Job, place: Place, prefix: str, secrets: bool) -> list[Pair]:
    variables = {
        "RANK": place.rank,
        "WORLD_SIZE": job.config.ranks,
        "LOCAL_RANK": place.local_rank,
        "CUDA_VISIBLE_DEVICES": place.local_rank,
    } | (_SECRETS if secrets else {})
    rows = [(f"{prefix}:PID", str(place.pid)), (f"{prefix}:COMMAND", "python3")]
    rows += [(f"{prefix}:ENVIRONMENT_VARIABLE", f'{name}="{value}"') for name, value in variables.items()]
    if secrets:
        rows.append((f"{prefix}:ARGUMENT_0", f"--password={PLANTED}"))
        rows.append((f"{prefix}:USER_NAME", f"{PLANTED}-user"))
        rows.append((f"{prefix}:WORKING_DIR", f"/home/{PLANTED}-user/project"))
    return rows


def export(name: str, secrets: bool) -> list[Pair]:
    """META_DATA_EXPORT: the version of the layout."""
    major, minor, micro = SCHEMA_VERSION
    rows = [
        ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
        ("EXPORT_PRODUCT_VERSION", PRODUCT_VERSION),
        ("EXPORT_SCHEMA_VERSION", f"{major}.{minor}.{micro}"),
        ("EXPORT_SCHEMA_VERSION_MAJOR", str(major)),
        ("EXPORT_SCHEMA_VERSION_MINOR", str(minor)),
        ("EXPORT_SCHEMA_VERSION_MICRO", str(micro)),
        ("EXPORT_PLATFORM", "linux-desktop"),
        ("EXPORT_PARAM_OUTUPT_FILE", name),
    ]
    if secrets:
        rows.append(("EXPORT_USER", f"{PLANTED}-user"))
        rows.append(("EXPORT_PARAM_OUTUPT_PATH_ABS", f"/home/{PLANTED}-user/{name}"))
    return rows
