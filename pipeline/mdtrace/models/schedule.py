"""What placing jobs close together would change: a cluster simulated event by event.

First come, first served: the first in the queue starts as soon as it is placed, none overtakes it. Two
policies place: `blind` spreads a job over the nodes with the most free GPUs, as a scheduler that balances
load does; `aware` takes the closest GPUs that are free, and waits for closer ones where the job would be done
sooner by it. A job keeps its GPUs to its end; jobs do not share links.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mdtrace.errors import UsageError
from mdtrace.models.topology import GB, Placement, Topology

Policy = Literal["aware", "blind"]
POLICIES: tuple[Policy, ...] = ("aware", "blind")
Gpus = tuple[int, ...]


@dataclass(frozen=True)
class Job:
    """A job: what a step takes, as the topology model has it or by class of links.

    Attributes:
        constant_s, sample_s, gb_s, hop_s, gamma: θ0, θ1, θ_p and α_p by class, γ.
        step_s: seconds of a step by the worst class of links; the model's coefficients are then not used.
    """

    name: str
    gpus: int
    steps: int
    arrival_s: float = 0.0
    batch: float = 0.0
    gradient_bytes: float = 0.0
    messages: float = 0.0
    constant_s: float = 0.0
    sample_s: float = 0.0
    gb_s: dict[str, float] = field(default_factory=dict)
    hop_s: dict[str, float] = field(default_factory=dict)
    gamma: float = 1.0
    step_s: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Cluster:
    """Nodes with the same number of GPUs; GPU g sits in node g // gpus_per_node."""

    nodes: int
    gpus_per_node: int
    topology: Topology

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.nodes * self.gpus_per_node

    @property
    def islands(self) -> list[tuple[str | None, int]]:
        """Classes of links from the closest, each with how many neighbouring GPUs it joins.

        Raises:
            UsageError: no class joins all GPUs of a node, or all nodes.
        """
        inside, between = self.topology.reach(Placement(self.gpus, self.nodes))
        found: list[tuple[str | None, int]] = [(None, 1), *inside]
        return found + [(name, nodes * self.gpus_per_node) for name, nodes in between]


@dataclass(frozen=True)
class Done:
    """What became of a job: when it started and finished, seconds of a step, on how many nodes, over what."""

    job: Job
    start_s: float
    finish_s: float
    step_s: float
    nodes: int
    link: str | None

    @property
    def jct_s(self) -> float:
        """Job completion time: from arrival to finish."""
        return self.finish_s - self.job.arrival_s


@dataclass(frozen=True)
class Schedule:
    """The answer of one policy; `jobs` in the order given."""

    policy: Policy
    jobs: tuple[Done, ...]

    @property
    def mean_jct_s(self) -> float:
        """Mean job completion time."""
        return sum(done.jct_s for done in self.jobs) / len(self.jobs)

    @property
    def makespan_s(self) -> float:
        """From the first arrival to the last finish."""
        return max(d.finish_s for d in self.jobs) - min(d.job.arrival_s for d in self.jobs)


def step_s(job: Job, cluster: Cluster, gpus: Gpus) -> float:
    """Seconds of a step of the job on these GPUs."""
    link = worst(cluster, gpus)
    if job.step_s:
        return job.step_s[link or "alone"]
    nodes = len({g // cluster.gpus_per_node for g in gpus})
    own = job.constant_s + job.sample_s * job.batch
    exchange = sum(
        job.gb_s.get(name, 0.0) * volume / GB + job.hop_s.get(name, 0.0) * hops
        for name, volume, hops in _moved(job, cluster, nodes, link)
    )
    return float((own**job.gamma + exchange**job.gamma) ** (1 / job.gamma))


def _moved(job: Job, cluster: Cluster, nodes: int, link: str | None) -> list[tuple[str, float, float]]:
    """Classes of links used, with bytes and hops of a step."""
    placement = Placement(job.gpus, nodes, job.batch, job.gradient_bytes, job.messages)
    if link is not None and cluster.topology.exchange == "ring":
        hops = 2 * (job.gpus - 1)
        return [(link, hops / job.gpus * job.gradient_bytes, hops * job.messages)]
    volumes, rounds = cluster.topology.volumes(placement), cluster.topology.rounds(placement)
    return [(name, volume, rounds[name]) for name, volume in volumes.items()]


def worst(cluster: Cluster, gpus: Gpus) -> str | None:
    """The closest class of links that joins all these GPUs; None for one GPU."""
    return next(name for name, size in cluster.islands if len({g // size for g in gpus}) == 1)


def simulate(jobs: Sequence[Job], cluster: Cluster, policy: Policy) -> Schedule:
    """Run the jobs on the cluster.

    Raises:
        UsageError: no job, a job that can never run, or whose step on some placement is not told.
    """
    if not jobs:
        raise UsageError("no job to schedule", "give at least one [[job]]")
    for job in jobs:
        _check(job, cluster)
    order = sorted(range(len(jobs)), key=lambda i: (jobs[i].arrival_s, i))
    run = _Run(cluster, policy, set(range(cluster.gpus)))
    done: dict[int, Done] = {}
    now = 0.0
    for index in order:
        job = jobs[index]
        now = max(now, job.arrival_s)
        run.release(now)
        while (gpus := run.place(job, now)) is None:
            now = run.running[0][0]
            run.release(now)
        done[index] = run.start(job, gpus, now)
    return Schedule(policy, tuple(done[i] for i in range(len(jobs))))


def _check(job: Job, cluster: Cluster) -> None:
    if job.gpus > cluster.gpus:
        raise UsageError(f"job {job.name} needs {job.gpus} GPUs, the cluster has {cluster.gpus}")
    crossed = [name for name, size in cluster.islands if size >= job.gpus and (job.gpus > 1 or name is None)]
    told = job.step_s or {**job.gb_s, "alone": job.constant_s}
    needed = [name or "alone" for name in crossed] if job.step_s or job.gradient_bytes else []
    missing = [name for name in needed if name not in told]
    if missing:
        what = "step_s" if job.step_s else "gb_s"
        raise UsageError(
            f"job {job.name}: {what} does not say what it takes over {missing[0]}",
            f"it may cross {', '.join(needed)}; for a job on one GPU the name is alone",
        )


@dataclass
class _Run:
    """State of the cluster: free GPUs; running jobs as (finish, number, GPUs), a heap."""

    cluster: Cluster
    policy: Policy
    free: set[int]
    running: list[tuple[float, int, Gpus]] = field(default_factory=list)
    started: int = 0

    def release(self, now: float) -> None:
        """Free the GPUs of jobs that are over."""
        while self.running and self.running[0][0] <= now:
            self.free.update(heapq.heappop(self.running)[2])

    def start(self, job: Job, gpus: Gpus, now: float) -> Done:
        """Run a job from now on."""
        step = step_s(job, self.cluster, gpus)
        finish = now + job.steps * step
        self.free.difference_update(gpus)
        heapq.heappush(self.running, (finish, self.started, gpus))
        self.started += 1
        nodes = len({g // self.cluster.gpus_per_node for g in gpus})
        return Done(job, now, finish, step, nodes, worst(self.cluster, gpus))

    def place(self, job: Job, now: float) -> Gpus | None:
        """GPUs for the job now; None where it has to wait, or had better."""
        if self.policy == "blind":
            return spread(self.cluster, self.free, job.gpus)
        found = closest(self.cluster, self.free, job.gpus)
        return None if found is None or self._later(job, found, now) else found

    def _later(self, job: Job, found: Gpus, now: float) -> bool:
        """The job would be done sooner on GPUs that running jobs give back."""
        best = now + job.steps * step_s(job, self.cluster, found)
        free = set(self.free)
        for finish, _, gpus in sorted(self.running):
            free.update(gpus)
            if finish >= best:
                return False
            later = closest(self.cluster, free, job.gpus)
            if later is not None and finish + job.steps * step_s(job, self.cluster, later) < best * (
                1 - 1e-12
            ):
                return True
        return False


def spread(cluster: Cluster, free: set[int], count: int) -> Gpus | None:
    """One GPU after the other from the node with the most free ones."""
    if len(free) < count:
        return None
    nodes = _by(free, cluster.gpus_per_node)
    taken = []
    for _ in range(count):
        node = max(nodes, key=lambda n: (len(nodes[n]), -n))
        taken.append(nodes[node].pop(0))
    return tuple(sorted(taken))


def closest(cluster: Cluster, free: set[int], count: int) -> Gpus | None:
    """The closest free GPUs: of the smallest islands that have enough, the one with the fewest to spare."""
    if len(free) < count:
        return None
    for _, size in cluster.islands:
        fitting = [gpus for gpus in _by(free, size).values() if len(gpus) >= count]
        if fitting:
            return _pack(min(fitting, key=len), count, cluster.gpus_per_node)
    return None


def _pack(free: list[int], count: int, per_node: int) -> Gpus:
    """So many of them on the fewest nodes; the last node is the one with the fewest to spare."""
    nodes = sorted(_by(free, per_node).values(), key=len, reverse=True)
    taken: list[int] = []
    while len(taken) < count:
        left = count - len(taken)
        fitting = [gpus for gpus in nodes if len(gpus) >= left]
        node = min(fitting, key=len) if fitting else nodes[0]
        nodes.remove(node)
        taken += node[:left]
    return tuple(sorted(taken))


def _by(gpus: Iterable[int], size: int) -> dict[int, list[int]]:
    """GPUs by island of that size, in order."""
    found: dict[int, list[int]] = {}
    for gpu in sorted(gpus):
        found.setdefault(gpu // size, []).append(gpu)
    return found
