"""Latency and bandwidth of the links, from the messages of one or several jobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mdtrace.models.fit import Fit, fit, wires
from mdtrace.models.fusion import Cost, Floats, Ints
from mdtrace.models.gradients import GradientTrace, Messages
from mdtrace.models.scaling import Link, all_reduce, hierarchical

Place = Literal["one host", "between hosts", "not known"]
Network = Literal["ring", "tree", "hierarchical"]


@dataclass(frozen=True)
class LinkFit:
    """A class of links as measured.

    Attributes:
        place: where the groups were whose messages were measured.
        jobs: indices of the jobs they are from; () where the link was given.
        transfer: timed from the last rank's arrival; else records' own durations, in which waiting may be.
        fitted: the fit; None where both latency and bandwidth were given.
    """

    place: Place
    link: Link
    jobs: tuple[int, ...]
    transfer: bool
    fitted: Fit | None

    @property
    def known(self) -> bool:
        """Latency and bandwidth are known each by itself."""
        return self.fitted is None or self.fitted.told_apart


@dataclass(frozen=True)
class Given:
    """What is known of the link beforehand: latency of a hop in ns, bytes/s."""

    latency_ns: float | None = None
    bytes_per_s: float | None = None

    @property
    def link(self) -> Link | None:
        """The link, where both are given."""
        if self.latency_ns is None or self.bytes_per_s is None:
            return None
        return Link(self.latency_ns, 1e9 / self.bytes_per_s)


def place_of(trace: GradientTrace) -> Place:
    """Where the ranks of the gradients' group are."""
    if trace.hosts is None:
        return "not known"
    return "one host" if trace.hosts == 1 else "between hosts"


def busy(messages: Messages, steps: Ints | None = None) -> tuple[Floats, Floats, Floats]:
    """Stretches in which messages travel, so that those that share the link are not counted twice.

    Args:
        steps: only messages of these.

    Returns:
        Messages, bytes and ns of each stretch.
    """
    keep = np.ones(len(messages.sizes), bool) if steps is None else np.isin(messages.step, steps)
    order = np.argsort(messages.start[keep], kind="stable")
    start, end, sizes = (a[keep][order] for a in (messages.start, messages.end, messages.sizes))
    if not len(start):
        return np.zeros(0), np.zeros(0), np.zeros(0)
    reached = np.maximum.accumulate(end)
    first = np.concatenate(([True], start[1:] >= reached[:-1]))
    at = np.flatnonzero(first)
    counts = np.diff(np.concatenate((at, [len(start)])))
    length = np.maximum.reduceat(end, at) - start[at]
    return counts.astype(np.float64), np.add.reduceat(sizes, at), length.astype(np.float64)


def links(
    traces: Sequence[GradientTrace],
    given: Given,
    network: Network = "ring",
    steps: Sequence[Ints | None] | None = None,
    without: int | None = None,
) -> dict[Place, LinkFit]:
    """The classes of links that the jobs show.

    Args:
        given: latency or bandwidth that is not to be fitted; where both are given nothing is.
        steps: for each job the steps whose messages count.
        without: a job that is left out.
    """
    found: dict[Place, LinkFit] = {}
    for place in ("one host", "not known", "between hosts"):
        jobs = [i for i, t in enumerate(traces) if i != without and place_of(t) == place and t.members > 1]
        near = found.get("one host")
        made = _fit_place(
            place, [(i, traces[i], None if steps is None else steps[i]) for i in jobs], given, network, near
        )
        if made is not None:
            found[place] = made
    return found


def _fit_place(
    place: Place,
    jobs: list[tuple[int, GradientTrace, Ints | None]],
    given: Given,
    network: Network,
    near: LinkFit | None,
) -> LinkFit | None:
    if not jobs or (network == "hierarchical" and place == "between hosts" and near is None):
        return None
    parts = [_observations(trace, steps, network, near) for _, trace, steps in jobs]
    x, y, times = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    beta = None if given.bytes_per_s is None else 1e9 / given.bytes_per_s
    fitted = fit(x, y, times, given.latency_ns, beta)
    if fitted is None:
        return None
    transfer = all(trace.messages.transfer for _, trace, _ in jobs)
    return LinkFit(place, Link(fitted.a, fitted.b), tuple(i for i, _, _ in jobs), transfer, fitted)


def _observations(
    trace: GradientTrace, steps: Ints | None, network: Network, near: LinkFit | None
) -> tuple[Floats, Floats, Floats]:
    """Latencies, bytes on the wire and ns of each stretch, as `fit` takes them."""
    counts, sizes, times = busy(trace.messages, steps)
    members = trace.members
    if network == "hierarchical" and near is not None and trace.hosts is not None and trace.hosts > 1:
        per_host = members // trace.hosts
        inside = all_reduce(near.link, per_host)
        times = times - inside.alpha * counts - inside.beta * sizes
        members, sizes = trace.hosts, sizes / per_host
    hops, share = wires("tree" if network == "tree" else "ring", np.array([float(members)]))
    return counts * hops, sizes * share, times


def cost(
    found: dict[Place, LinkFit], place: Place, members: int, hosts: int, network: Network
) -> Cost | None:
    """Cost of an all-reduce; None where the links it needs are not known."""
    if members < 2:
        return Cost(0.0, 0.0)
    link = found.get(place)
    if link is None or not link.known:
        return None
    if network == "hierarchical" and place == "between hosts":
        near = found.get("one host")
        return (
            None
            if near is None or not near.known
            else hierarchical(near.link, link.link, members // hosts, hosts)
        )
    return all_reduce(link.link, members, "tree" if network == "tree" else "ring")
