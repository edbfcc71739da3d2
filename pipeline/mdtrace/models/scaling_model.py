"""What all predictions for one job share: its gradients, the links, what packs the buckets."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mdtrace.errors import InputError, UsageError
from mdtrace.models.fusion import Backward, Cost, Ints, Rule, Schedule, schedule
from mdtrace.models.fusion import run as run_buckets
from mdtrace.models.fusion_plans import greedy, optimum
from mdtrace.models.gradients import GradientTrace
from mdtrace.models.scaling import Plan, StepTime, medians, step_time
from mdtrace.models.scaling_links import Given, LinkFit, Network, Place, cost, links, place_of

HOROVOD_CAP = 128 * 2**20  # bytes, Horovod's default fusion threshold
HOROVOD_CYCLE_NS = 1e6
MEBIBYTE = 2**20
FUSIONS = ("recorded", "ddp", "horovod", "threshold", "none", "one", "greedy", "best")


@dataclass(frozen=True)
class Options:
    """What is asked, and what is known beforehand.

    Attributes:
        gpus: numbers of GPUs to predict; (): the measured ones, then doubling three times.
        per_host: GPUs of a host; None: as in the data.
        given: of the link between hosts where `per_host` is known, else of every link.
        fusion: recorded, ddp, horovod, threshold, each, one, greedy or best.
        cap: bytes, of a fusion with a cap.
    """

    gpus: tuple[int, ...] = ()
    per_host: int | None = None
    given: Given = field(default_factory=Given)
    network: Network = "ring"
    fusion: str = "recorded"
    cap: float | None = None


@dataclass(frozen=True)
class Point:
    """One number of GPUs.

    Attributes:
        members: ranks that average gradients. hosts: None where GPUs of a host are not known.
        predicted: None with the reason. measured_ns: median step of a run; error: predicted over it, less 1.
        fitted: the measured run is the one that the prediction was fitted on; False: held out.
        job: name of the measured run.
    """

    gpus: int
    members: int
    hosts: int | None
    place: Place
    predicted: StepTime | None
    reason: str | None = None
    measured_ns: float | None = None
    error: float | None = None
    fitted: bool | None = None
    job: str | None = None


class Model:
    """What all predictions of a study share."""

    def __init__(self, base: GradientTrace, traces: list[GradientTrace], options: Options) -> None:
        self.base = base
        self.traces = traces
        self.options = options
        self.per_host = options.per_host or _per_host(traces)
        self.pace, self.typical = backwards(base)
        self.plan, self.fusion = planner(base, options.fusion, options.cap)
        self.links = self.links_without(None)

    def links_without(self, job: int | None, steps: Ints | None = None) -> dict[Place, LinkFit]:
        """Links fitted without a job; of the base only with some steps."""
        chosen = [steps if i == 0 else None for i in range(len(self.traces))]
        given = self.options.given
        everywhere = given if self.per_host is None else Given()
        found = links(self.traces, everywhere, self.options.network, chosen, job)
        if self.per_host is None and given.link is not None:
            return {place_of(self.base): LinkFit(place_of(self.base), given.link, (), True, None)}
        if self.per_host is not None and (given.latency_ns is not None or given.bytes_per_s is not None):
            across = links(self.traces, given, self.options.network, chosen, job).get("between hosts")
            link = given.link
            if link is not None:
                across = LinkFit("between hosts", link, (), True, None)
            if across is not None:
                found["between hosts"] = across
        return found

    def where(self, gpus: int) -> tuple[int, Place]:
        """Hosts (0: not known) and links of so many GPUs."""
        if self.per_host is None:
            return 0, place_of(self.base)
        hosts = -(-gpus // self.per_host)
        return hosts, "one host" if hosts == 1 else "between hosts"

    def members(self, gpus: int) -> int | None:
        """Ranks that average gradients; None where the GPUs do not make whole copies of the model."""
        copies = gpus * self.base.members / self.base.world
        return int(copies) if copies >= 1 and copies == int(copies) else None

    def point(
        self,
        gpus: int,
        found: dict[Place, LinkFit],
        trace: GradientTrace | None = None,
        *,
        held_out: bool = False,
    ) -> Point:
        """Predict one number of GPUs.

        Args:
            trace: a run there, whose buckets count, and whose compute where ranks share cores.
            held_out: the links are those of the other runs.
        """
        hosts, place = self.where(gpus)
        if trace is not None and self.per_host is None:
            place, hosts = place_of(trace), trace.hosts or 0
        members = self.members(gpus)
        if members is None:
            each = self.base.world // self.base.members
            reason = f"{gpus} GPUs are no whole number of copies of the model, {each} each"
            return Point(gpus, 0, hosts or None, place, None, reason)
        price = cost(found, place, members, max(hosts, 1), self.options.network)
        if price is None:
            return Point(gpus, members, hosts or None, place, None, unknown(found, place, held_out))
        return Point(gpus, members, hosts or None, place, self.step(price, trace))

    def step(self, price: Cost, trace: GradientTrace | None) -> StepTime:
        pace, typical, plan = self.pace, self.typical, self.plan
        if trace is not None and trace.origin in ("host", "ticks", "negotiation"):
            pace, typical = backwards(trace)
        if (
            trace is not None
            and self.options.fusion == "recorded"
            and len(trace.sizes) == len(self.base.sizes)
        ):
            plan, _ = planner(trace, "recorded", None)
        return step_time(pace, typical, 0.0, price, plan)


HINT = (
    "give --bandwidth and --latency, or runs with messages of several sizes and on as many hosts as asked for"
)


CAUTION = (
    "Take these figures with care: the messages are not matched across all ranks, so that waiting for late"
    " ranks may be most of what a message is said to take. The traces of all ranks, or --latency and"
    " --bandwidth, tell."
)


def unknown(found: dict[Place, LinkFit], place: Place, held_out: bool = False) -> str:
    """Why links are not known; held out: without the messages of the run that is predicted."""
    if place not in found:
        run = "no other run (held out)" if held_out else "no run"
        return f"{run} shows links {place if place != 'one host' else 'inside one host'}"
    messages = "messages of the other runs (held out)" if held_out else "messages"
    return f"all {messages} have about the same size, so that latency and bandwidth cannot be told apart"


def _per_host(traces: Sequence[GradientTrace]) -> int | None:
    """GPUs of a host: what the runs on several hosts had."""
    found = {-(-t.world // t.hosts) for t in traces if t.hosts is not None and t.hosts > 1}
    return max(found) if found else None


def backwards(trace: GradientTrace, keep: Ints | None = None) -> tuple[Backward, Backward]:
    """Gradients as the slowest and as the median rank make them ready, in a typical step.

    Args:
        keep: indices of the steps that count.
    """
    slowest, typical = medians(trace.ready if keep is None else trace.ready[keep])
    return Backward.of(trace.sizes, slowest), Backward.of(trace.sizes, typical)


def planner(trace: GradientTrace, fusion: str, cap: float | None) -> tuple[Plan, str]:
    """What packs and sends the gradients, and its name.

    Raises:
        UsageError: no such fusion. InputError: the recorded buckets differ from step to step.
    """
    if fusion == "recorded":
        stops = trace.buckets
        if stops is not None:
            return (lambda b, c: run_buckets(b, c, stops)), f"the {len(stops)} buckets of the run"
        if trace.timeline:
            return planner(trace, "horovod", cap)
        raise InputError(
            "the buckets of the run differ from step to step", "say what packs them: --fusion ddp"
        )
    if fusion == "best":
        return optimum, "the best buckets"
    if fusion == "greedy":
        return greedy, "MG-WFBP's greedy"
    rule, words = _rule(trace, fusion, cap)

    def plan(backward: Backward, price: Cost) -> Schedule:
        return schedule(rule, backward, price)

    return plan, words


def _rule(trace: GradientTrace, fusion: str, cap: float | None) -> tuple[Rule, str]:
    if fusion == "ddp":
        # A cap of one's own holds for the first bucket too; only the default has a small first one.
        rule = Rule("ddp", 25 * MEBIBYTE, 1 * MEBIBYTE) if cap is None else Rule("ddp", cap)
        return rule, f"DDP buckets of {rule.cap / MEBIBYTE:g} MiB" + ("" if cap else " (the first 1 MiB)")
    if fusion == "horovod":
        rule = Rule("blocking cycle", cap or HOROVOD_CAP, period=trace.cycle_ns or HOROVOD_CYCLE_NS)
        return rule, f"Horovod's cycle of {rule.period / 1e6:.3g} ms, threshold {rule.cap / MEBIBYTE:g} MiB"
    if fusion == "threshold":
        return Rule(
            "threshold", cap or HOROVOD_CAP
        ), f"a threshold of {(cap or HOROVOD_CAP) / MEBIBYTE:g} MiB"
    if fusion in ("each", "none"):
        return Rule("each"), "each gradient alone"
    if fusion == "one":
        return Rule("one"), "all gradients together"
    raise UsageError(f"--fusion {fusion}: not known", f"one of {', '.join(FUSIONS)}")


def notes(model: Model) -> list[str]:
    """What to know about the figures of a model."""
    base = model.base
    found: list[str] = []
    if base.origin == "host":
        found.append(
            "Compute runs on CPUs, whose cores the ranks of a host share: T_1 is the compute of each of the"
            f" {base.world} ranks in this run, and further ranks are taken to have as many cores each."
        )
    if base.timeline:
        found.append("A timeline shows no compute: T_1 is the time until the last gradient is ready.")
    if base.origin == "negotiation":
        found.append(
            "No ticks (the response cache hides them): the last rank's readiness is estimated from the first"
            " one's request and from when Horovod's loop was idle."
        )
    if base.ranks_left_out:
        found.append(
            f"{base.ranks_left_out} ranks have other gradients, as stages of a pipeline do: left out."
        )
    if base.origin == "buckets":
        found.append("Buckets are known, not the gradients in them: smaller ones cannot be judged.")
    if not base.timeline and any(not link.transfer for link in model.links.values()):
        found.append(CAUTION)
    elif base.timeline and not base.messages.transfer:
        found.append("Messages are timed by their own records, in which waiting for late ranks may be.")
    if model.per_host is None:
        found.append(
            "Further GPUs are taken to be reached over links like those measured; --per-node says where a"
            " host ends."
        )
    return found
