"""Which rank a capture is: what the option says, else the file, else its name; and whether a job adds up."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from mdtrace.ingest.facts import ProcessFacts, SourceFacts
from mdtrace.tables.diagnostics import Diagnostic

# rank3, rank_3, rank-03, rank=3, rank3of8, global_rank_3; as a word of its own (no frank3, no ranks8).
# The word before tells ranks of a part of the job: local_rank3, tp_rank1.
_RANK = re.compile(
    r"(?:(?<![a-z])([a-z]{1,9})[ _.-]?)?(?<![a-z])rank[ _.=-]?(\d{1,9})(?:[ _-]?of[ _-]?\d{1,9})?(?![a-z\d])",
    re.IGNORECASE | re.ASCII,
)
_OF_A_PART = {"local", "node", "group", "role", "tp", "pp", "dp", "ep", "cp", "sp", "vp", "mp", "etp", "edp"}
# worker3_…, worker_3.…; but `job-worker-3_77.1699999999.pt.trace.json` is a host, its process and a time.
_WORKER = re.compile(
    r"(?<![a-z])worker[ _.=-]?(\d{1,9})(?![a-z\d])(?!_\d+\.\d{9,})", re.IGNORECASE | re.ASCII
)


def rank_from_name(label: str) -> int | None:
    """The global rank in a file's name or folders, if it says so without doubt.

    Two numbers that differ give None, and so do ranks of a part of the job (`tp_rank1`) and bare
    numbers (`trace.3.json`, `trace_r3.json`): they may as well count steps, runs or versions.
    """
    ranks = _RANK.findall(label)
    found = {int(digits) for word, digits in ranks if word.lower() not in _OF_A_PART}
    if not ranks:
        found = {int(digits) for digits in _WORKER.findall(label)}
    return found.pop() if len(found) == 1 else None


def resolve_ranks(label: str, facts: SourceFacts, given: Sequence[int] | None) -> list[Diagnostic]:
    """Fill rank and rank_origin of a source's processes, and say where they came from.

    Args:
        label: what the dataset calls the file.
        facts: changed in place. A rank that the file states stands there already.
        given: ranks by option, one for each process of the file, in order.

    Returns:
        Findings; `process` is the ordinal within the source.
    """
    found: list[Diagnostic] = []
    count = len(facts.processes)
    named = rank_from_name(label) if count == 1 else None
    if given is not None and len(given) != count:
        detail = {"file": label, "ranks": ",".join(map(str, given)), "processes": count}
        found.append(Diagnostic("rank_option_unused", 1, detail))
        given = None
    for number, process in enumerate(facts.processes):
        for code, more in _resolve(process, named, given[number] if given is not None else None):
            found.append(Diagnostic(code, 1, {"file": label, **more}, number))
    return found


def _resolve(
    process: ProcessFacts, named: int | None, given: int | None
) -> Iterable[tuple[str, dict[str, object]]]:
    """Settle one process's rank: option, else file, else name."""
    if given is not None:
        if process.rank not in (None, given):
            yield "rank_overridden", {"rank": given, "stated": process.rank}
        process.rank, process.rank_origin = given, "option"
    elif process.rank is not None:
        if named not in (None, process.rank) and process.rank_origin != "timeline":
            yield "rank_name_differs", {"rank": process.rank, "named": named}
    elif named is not None:
        process.rank, process.rank_origin = named, "file name"
        yield "rank_from_file_name", {"rank": named}
    else:
        yield "no_rank", {"pid": "(pid unknown)" if process.pid is None else process.pid}
    size = process.world_size
    if process.rank is not None and size is not None and process.rank >= size:
        yield "rank_beyond_world", {"rank": process.rank, "size": size}


def job_diagnostics(
    processes: Sequence[dict[str, Any]], sources: Sequence[dict[str, Any]]
) -> list[Diagnostic]:
    """Whether the captures of a dataset make up one job.

    Args:
        processes, sources: all rows of these tables.

    Returns:
        Findings about the dataset as a whole: ranks captured twice or missing, world sizes that differ,
        clocks that cannot be compared.
    """
    # A Horovod timeline speaks of the whole job from rank 0's clock: it is no second capture of rank 0.
    captures = [p for p in processes if p["rank_origin"] != "timeline"]
    files = {s["source_id"]: str(s["file"]) for s in sources}
    return [
        *_twice(captures, files),
        *_missing(captures, processes),
        *_beyond(captures, processes),
        *_sizes(processes),
        *_clocks(sources),
        *_hosts(captures),
    ]


def _twice(captures: Sequence[dict[str, Any]], files: dict[int, str]) -> Iterable[Diagnostic]:
    by_rank: dict[int, list[str]] = defaultdict(list)
    for process in captures:
        if process["rank"] is not None:
            by_rank[process["rank"]].append(files.get(process["source_id"], "?"))
    twice = {rank: names for rank, names in sorted(by_rank.items()) if len(names) > 1}
    if twice:
        text = "; ".join(f"rank {rank} in {', '.join(sorted(names))}" for rank, names in twice.items())
        yield Diagnostic("rank_twice", len(twice), {"where": text})


def _missing(captures: Sequence[dict[str, Any]], processes: Sequence[dict[str, Any]]) -> Iterable[Diagnostic]:
    """Ranks of the largest world size stated that no capture has; nothing where no capture has a rank."""
    present = {p["rank"] for p in captures if p["rank"] is not None}
    size = _largest(processes)
    missing = set(range(size)) - present
    if present and missing:
        detail = {"present": compact(present), "missing": compact(missing), "size": size}
        yield Diagnostic("ranks_missing", len(missing), detail)


def _largest(processes: Sequence[dict[str, Any]]) -> int:
    return max((p["world_size"] for p in processes if p["world_size"] is not None), default=0)


def _beyond(captures: Sequence[dict[str, Any]], processes: Sequence[dict[str, Any]]) -> Iterable[Diagnostic]:
    """Ranks beyond the world size that others state; those beyond their own are found while reading."""
    size = _largest(processes)
    for process in captures:
        if size and process["world_size"] is None and (process["rank"] or 0) >= size:
            detail = {"file": "dataset", "rank": process["rank"], "size": size}
            yield Diagnostic("rank_beyond_world", 1, detail)


def _sizes(processes: Sequence[dict[str, Any]]) -> Iterable[Diagnostic]:
    by_size: dict[int, set[int]] = defaultdict(set)
    for process in processes:
        if process["world_size"] is not None:
            by_size[process["world_size"]].add(-1 if process["rank"] is None else process["rank"])
    if len(by_size) > 1:
        parts = [
            f"{size} (rank {compact(known)})" if (known := ranks - {-1}) else f"{size} (rank unknown)"
            for size, ranks in sorted(by_size.items())
        ]
        yield Diagnostic("world_sizes_differ", len(by_size), {"sizes": ", ".join(parts)})


def _clocks(sources: Sequence[dict[str, Any]]) -> Iterable[Diagnostic]:
    """Files whose times count from their own zero, beside others: they cannot be compared in time."""
    own = sorted(str(s["file"]) for s in sources if s["clock_base"] == "file")
    if own and len(sources) > 1:
        yield Diagnostic("clock_bases_differ", len(own), {"files": ", ".join(own)})


def _hosts(captures: Sequence[dict[str, Any]]) -> Iterable[Diagnostic]:
    """Several ranks, and no (or not every) file says on which host it ran."""
    silent = sum(p["host"] is None for p in captures)
    if silent and len(captures) > 1:
        yield Diagnostic("no_host", silent, {"captures": len(captures)})


def compact(numbers: Iterable[int]) -> str:
    """Numbers in ascending order, runs of three and more as first-last: `0, 2-5, 8`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    parts = [[f"{a}-{b}"] if b > a + 1 else [str(n) for n in range(a, b + 1)] for a, b in runs]
    return ", ".join(part for group in parts for part in group)
