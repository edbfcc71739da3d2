"""The head of the page: the job in a few figures, and its three roofs."""

from dataclasses import dataclass

from mdtrace.plots.values import si
from mdtrace.report.blocks import Block, Column, Missing, rows
from mdtrace.report.coverage import costs_covered, steps_covered
from mdtrace.report.facts import Facts, Row
from mdtrace.report.text import duration, listed, percent


@dataclass(frozen=True)
class Card:
    """One figure with what it means."""

    title: str
    value: str
    note: str


def subtitle(facts: Facts) -> str:
    """What was captured, in one line."""
    processes, files = facts.layout["processes"], facts.layout["sources"]
    ranks = len({row["rank"] for row in processes if row["rank"] is not None})
    world = max((row["world_size"] or 0 for row in processes), default=0)
    devices = sorted({row["name"] for row in facts.layout["devices"] if row["name"]})
    formats = sorted({row["format"] for row in files})
    known = f"{ranks} of {world} ranks" if world else f"{ranks} known ranks" if ranks else "ranks unknown"
    where = f" on {listed(devices)}" if devices else ""
    return f"{known}{where} · {len(files)} {'file' if len(files) == 1 else 'files'} ({listed(formats)})"


def cards(facts: Facts) -> list[Card]:
    """The job's figures; those that are not known say so."""
    job = facts.job
    step = facts.step_ns
    found = [Card("Step", duration(step) if step else "not known", steps_covered(facts))]
    if job is None:
        return found
    dtype = f" of {job['dtype']}" if job["dtype"] else ""
    found += [
        Card("MFU", _share(job["mfu"]), f"FLOP against the matrix peak{dtype}"),
        Card("Of what the roofs allow", _share(job["efficiency"]), "achieved over attainable"),
        Card("Bound by", job["bound"] or "not known", _bound_note(job)),
        Card("Compute runs", _share(job["compute_share"]), "of the ranks' time"),
        Card(
            "Exposed communication" if job["straggler_share"] is None else "Exposed transfer",
            _share(job["network_share"]),
            _hidden(facts, job),
        ),
        Card("Waiting for ranks", _share(job["straggler_share"]), _matched(facts, job)),
        Card("Coverage", _share(job["coverage"]), "of compute time has FLOP and bytes"),
    ]
    return found


def nothing(facts: Facts) -> str:
    """What it means that there are no findings."""
    job = facts.job
    if job is None:
        return "Nothing was found that is worth 1 % of the time: nothing was accounted, see below."
    known = job["coverage"] or 0
    rest = "" if known > 0.9 else f" Roofs say nothing about {percent(1 - known)} of compute: see below."
    return f"Nothing was found that is worth 1 % of the time.{rest}"


def _share(value: float | None) -> str:
    return "not known" if value is None else percent(value)


def _hidden(facts: Facts, job: Row) -> str:
    if job["phi"] is not None:
        return f"compute hides {percent(job['phi'])} of communication"
    if not facts.rows("collective_bandwidth"):
        return "no communication"
    return "a timeline tells no compute" if facts.timeline else "what compute hides is not known"


def _matched(facts: Facts, job: Row) -> str:
    if job["straggler_share"] is not None:
        return "exposed, of the ranks' time"
    return "a timeline tells no compute" if facts.timeline else "ranks are not matched"


_MEANINGS = {
    "compute": "the arithmetic takes longest at its roof",
    "memory": "device memory takes longest at its roof",
    "communication": "the links take longest at their roof",
    "balanced": "the two longest are within 5 %",
    "latency": "no roof explains half of the time",
    "straggler": "waiting exceeds the transfer",
}


def _bound_note(job: Row) -> str:
    return _MEANINGS.get(job["bound"], "no roof is known")


def roofs(facts: Facts) -> list[Block]:
    """The three roofs, how long a rank's step or capture would take at each, and where they come from."""
    job = facts.job
    if job is None:
        return [Missing("nothing was accounted, so no roof applies")]
    table = facts.rows("hardware_roofs")
    steps = (job["steps"] or 0) / max(1, job["ranks"] or 1) if facts.step_ns else 1
    found = [
        _roof("compute", job["peak_flops_per_s"], "FLOP/s", job["t_compute_s"], steps, table, job["dtype"]),
        _roof("memory", job["memory_bytes_per_s"], "B/s", job["t_memory_s"], steps, table, None),
        _roof("bus", job["bus_bytes_per_s"], "B/s", job["t_comm_s"], steps, table, None),
    ]
    columns = (
        Column("roof", "roof", right=False),
        Column("peak", "peak of a device"),
        Column("time", "time at the roof, a step" if facts.step_ns else "time at the roof"),
        Column("origin", "from", right=False),
        Column("source", "source", right=False),
    )
    blocks: list[Block] = [rows("Three roofs", found, columns, "FROM job_roofline", costs_covered(facts))]
    if job["doubt"]:
        blocks.append(Missing(f"about the hardware: {job['doubt']}", "name it with --hardware"))
    return blocks


def _roof(
    roof: str, peak: float | None, unit: str, seconds: float | None, steps: float,
    table: list[dict[str, object]], dtype: str | None,
) -> dict[str, object]:  # fmt: skip
    of = [row for row in table if row["roof"] == roof and (dtype is None or row["dtype"] == dtype)]
    name = {
        "compute": f"compute, {dtype}" if dtype else "compute",
        "memory": "device memory",
        "bus": "links",
    }[roof]
    return {
        "roof": name,
        "peak": None if peak is None else si(peak, unit),
        "time": None if seconds is None else duration(seconds * 1e9 / max(steps, 1)),
        "origin": of[0]["origin"] if of else None,
        "source": of[0]["source"] if of else None,
    }
