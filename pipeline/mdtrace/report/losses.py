"""Findings on time in which nothing is computed: waiting, communication, idling, copies."""

from mdtrace.plots.values import si
from mdtrace.report import advice
from mdtrace.report.facts import Facts
from mdtrace.report.finding import Finding, share, span_ns
from mdtrace.report.text import duration, percent, sentence, size


def _straggler(facts: Facts) -> Finding | None:
    """One rank that makes the others wait step after step."""
    late = next((row for row in facts.stragglers.ranks if row["persistent"]), None)
    if late is None or not late["loss_ns"]:
        return None
    job = facts.job
    gain = job["straggler_share"] if job and job["straggler_share"] is not None else None
    if gain is None:
        gain = late["loss_ns"] / late["step_ns"] if late["step_ns"] else 0.0
    sure = not late["error_ns"] or late["loss_ns"] >= 10 * late["error_ns"]
    evidence = [
        sentence(facts.stragglers.text),
        f"It caused {percent(late['blame'])} of the time lost by waiting and came last at "
        f"{late['last_count']} of {late['collectives']} collectives.",
        f"Waiting for other ranks is {percent(gain)} of the ranks' time.",
    ]
    return Finding(
        title=f"Rank {late['rank']} makes the others wait",
        gain=gain,
        gain_ns=gain * span_ns(facts),
        evidence=tuple(evidence),
        confidence="high" if sure else "medium",
        why=f"in {late['worst_steps']} of {late['steps']} steps; error of the arrivals "
        f"{duration(late['error_ns'] or 0)}",
        next_step=advice.straggler(late["cause"]),
        sql="FROM straggler_ranks ORDER BY blame DESC",
    )


def _imbalance(facts: Facts) -> Finding | None:
    """Waiting that no single rank is to blame for."""
    job = facts.job
    if job is None or not job["straggler_share"] or any(r["persistent"] for r in facts.stragglers.ranks):
        return None
    gain = job["straggler_share"]
    title, why, next_step = _waits(facts)
    return Finding(
        title=title,
        gain=gain,
        gain_ns=gain * span_ns(facts),
        evidence=(
            f"Waiting for other ranks, hidden by nothing, is {percent(gain)} of the ranks' time.",
            sentence(facts.stragglers.text),
        ),
        confidence="medium",
        why=why,
        next_step=next_step,
        sql="FROM straggler_steps ORDER BY step_lost_ns DESC",
    )


def _waits(facts: Facts) -> tuple[str, str, str]:
    """Title, why and what next of waiting that no persistent straggler causes: for one rank, or in turn."""
    most = max(facts.stragglers.ranks, key=lambda row: row["blame"] or 0, default=None)
    if most is None or (most["blame"] or 0) < 0.5:
        return (
            "Ranks wait for each other, in turn",
            "no rank is late step after step",
            "Look at who is late when (mdtrace stragglers, view straggler_steps): uneven batches, data "
            "loading, or garbage collection in turn.",
        )
    recurs = "whether it recurs cannot be said" if most["persistent"] is None else "it does not recur"
    steps = f"{most['steps']} {'step' if most['steps'] == 1 else 'steps'} compared"
    return f"Most waiting is for rank {most['rank']}", f"{steps}: {recurs}", advice.straggler(most["cause"])


def _network(facts: Facts) -> Finding | None:
    """Communication that no compute hides, without the waiting where that is known."""
    job = facts.job
    matched = job is not None and job["straggler_share"] is not None
    gain = (
        job["network_share"] if job and job["network_share"] is not None else share(facts, "exposed_comm_ns")
    )
    if not gain:
        return None
    view, _ = facts.totals
    evidence = [f"{percent(gain)} of the ranks' time is communication that no compute hides."]
    if job and job["phi"] is not None:
        evidence.append(f"Compute hides {percent(job['phi'])} of all communication.")
    slow = _slowest_link(facts)
    if slow is not None:
        evidence.append(slow[0])
    waiting = "" if matched else ", waiting for other ranks included"
    return Finding(
        title=f"Communication is exposed{waiting}",
        gain=gain,
        gain_ns=gain * span_ns(facts),
        evidence=tuple(evidence),
        confidence="medium" if matched else "low",
        why="waiting for other ranks is taken out"
        if matched
        else "other ranks are not matched, so waiting cannot be told from transfer",
        next_step=advice.network(job["phi"] if job else None, slow[1] if slow else None, matched=matched),
        sql=f"SELECT rank, exposed_comm_ns, overlap_ratio, span_ns FROM {view} ORDER BY exposed_comm_ns DESC",
    )


def _slowest_link(facts: Facts) -> tuple[str, float] | None:
    """The collective of most time against the roof of the links: in words, and its share of the roof."""
    rows = [r for r in facts.rows("collective_bandwidth") if r["busbw_median_gb_s"] and r["time_ns"]]
    limits = [r for r in facts.rows("hardware_roofs") if r["roof"] == "bus" and r["per_s"]]
    if not rows or not limits:
        return None
    most, limit = max(rows, key=lambda row: row["time_ns"]), max(limits, key=lambda row: row["per_s"])
    of_limit = most["busbw_median_gb_s"] * 1e9 / limit["per_s"]
    of = "the best in the data" if limit["origin"] == "empirical" else "the link's limit"
    speed, bucket = si(most["busbw_median_gb_s"] * 1e9, "B/s"), most["bucket_bytes"]
    text = (
        f"Most time is in {most['kind']} of {size(bucket)} to {size(2 * bucket)}: bus bandwidth {speed}, "
        f"{percent(of_limit)} of {of}."
    )
    return text, of_limit


_CAUSES = {
    "host_ns": "waiting for the host to launch",
    "launch_ns": "inside launch calls",
    "dependency_ns": "waiting for work on other streams",
    "queue_ns": "launched but not started",
    "unknown_ns": "cause not recorded",
}


def _idle(facts: Facts) -> Finding | None:
    """Devices on which nothing runs."""
    gain = share(facts, "idle_ns")
    if not gain:
        return None
    view, rows = facts.totals
    steady = [row for row in facts.rows("step_idle_breakdown") if row["steady"]]
    accounts = steady or facts.rows("idle_breakdown")
    causes = {key: sum(row[key] or 0 for row in accounts) for key in _CAUSES}
    whole = sum(causes.values())
    main = max(causes, key=lambda key: causes[key])
    evidence = [f"Nothing runs in {percent(gain)} of the ranks' time."]
    if whole:
        evidence.append(f"{percent(causes[main] / whole)} of it is {_CAUSES[main]}.")
    worst = max(rows, key=lambda row: (row["idle_ns"] or 0) / row["span_ns"])
    idle = (worst["idle_ns"] or 0) / worst["span_ns"]
    if len(rows) > 1 and idle > 2 * gain and worst["rank"] is not None:
        evidence.append(f"Rank {worst['rank']} alone: {percent(idle)} of its time.")
    known = main != "unknown_ns"
    late = [row["rank"] for row in facts.stragglers.ranks if row["persistent"]]
    first = f"Much of it is rank {late[0]}'s: begin there. " if late and late[0] == worst["rank"] else ""
    title = "Devices are idle" if known else "Nothing is recorded for part of the time"
    return Finding(
        title="No operator runs in part of the time" if facts.on_host else title,
        gain=gain,
        gain_ns=gain * span_ns(facts),
        evidence=tuple(evidence),
        confidence="high" if known else "low",
        why="from launch records" if known else "the capture does not tell what was waited for",
        next_step=first + advice.idle(main, on_host=facts.on_host),
        sql=f"SELECT rank, idle_ns, span_ns FROM {view} ORDER BY idle_ns DESC",
    )


def _memory(facts: Facts) -> Finding | None:
    """Copies and sets that nothing hides."""
    gain = share(facts, "exposed_memory_ns")
    if not gain:
        return None
    copies = [row for row in facts.rows("kernel_summary") if row["class"] in ("memcpy", "memset")]
    evidence = [f"{percent(gain)} of the ranks' time is copies and sets that no other work hides."]
    if copies:
        total, times = duration(copies[0]["total_ns"]), copies[0]["count"]
        evidence.append(f"Most in {copies[0]['name']}: {times} times, {total} over all ranks.")
    view, _ = facts.totals
    return Finding(
        title="Copies stand in the way",
        gain=gain,
        gain_ns=gain * span_ns(facts),
        evidence=tuple(evidence),
        confidence="high",
        why="measured on the device",
        next_step=advice.copies(copies[0]["name"] if copies else None),
        sql=f"SELECT rank, exposed_memory_ns, span_ns FROM {view} ORDER BY exposed_memory_ns DESC",
    )


MAKERS = (_straggler, _imbalance, _network, _idle, _memory)
