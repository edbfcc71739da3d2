"""What part of the steps and of the time the figures rest on, in words."""

from mdtrace.report.facts import Facts
from mdtrace.report.text import percent


def steps_covered(facts: Facts) -> str:
    """Which steps the figures are of, in words."""
    steps = facts.rows("step_summary")
    if not steps:
        return "the whole capture: no steps are marked"
    steady = [row["step"] for row in steps if row["steady"]]
    left = len(steps) - len(steady)
    names = (
        f"steps {steady[0]} to {steady[-1]}"
        if len(steady) > 1
        else f"step {steady[0]}"
        if steady
        else "no step"
    )
    return names + (f"; {left} of {len(steps)} left out (warm-up or incomplete)" if left else "")


def costs_covered(facts: Facts) -> str:
    """For how much of the compute time FLOP and bytes are known, in words."""
    job = facts.job
    if job is None or job["coverage"] is None:
        return "FLOP and bytes are not known"
    return f"FLOP and bytes known for {percent(job['coverage'])} of compute time; {steps_covered(facts)}"
