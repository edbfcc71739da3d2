"""A simulated job: what every rank did in true time, and the clocks that its hosts told time by."""

import random
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from simulate.collectives import Collectives
from simulate.config import Config
from simulate.engine import Engine
from simulate.events import Collective, RankTrace
from simulate.placement import Place, places
from simulate.program import RankProgram


@dataclass(frozen=True)
class Clock:
    """A host's clock against true time."""

    host: str
    offset_ns: int
    drift_ppm: float

    def read(self, true_ns: int) -> int:
        """What the clock shows at a true time, both in ns since the job's epoch."""
        return true_ns + round(true_ns * self.drift_ppm * 1e-6) + self.offset_ns


@dataclass
class Job:
    """What happened. Times are true, in ns since `config.epoch_ns`, unless a clock has read them."""

    config: Config
    places: list[Place]
    clocks: list[Clock]
    ranks: list[RankTrace]
    collectives: list[Collective] = field(default_factory=list)

    def clock(self, rank: int) -> Clock:
        """The clock of the host that a rank runs on."""
        return self.clocks[self.places[rank].host]

    def read(self, rank: int, true_ns: int) -> int:
        """Wall clock of a rank at a true time, in ns since 1970."""
        return self.config.epoch_ns + self.clock(rank).read(true_ns)

    @cached_property
    def truth(self) -> dict[str, Any]:
        """All that is known about the job, as written to truth.json."""
        from simulate.truth import truth

        return truth(self)


def job(config: Config | None = None) -> Job:
    """Simulate a job. The same configuration gives the same job.

    Raises:
        ValueError: the configuration cannot be simulated.
    """
    config = config or Config()
    engine = Engine(config)
    collectives = Collectives(config)
    where = places(config)
    programs = [RankProgram(config, engine, place, collectives) for place in where]
    engine.run([program.run() for program in programs])
    return Job(config, where, _clocks(config), [p.host.trace for p in programs], _in_order(collectives.all))


def _clocks(config: Config) -> list[Clock]:
    draw = random.Random(f"clocks {config.seed}")
    drawn = [(draw.uniform(-5.0, 5.0), draw.uniform(-10.0, 10.0)) for _ in range(config.hosts)]
    drawn[0] = (0.0, 0.0)
    offsets = config.offsets_ms or [offset for offset, _ in drawn]
    drifts = config.drifts_ppm or [drift for _, drift in drawn]
    return [Clock(f"node{h}", round(offsets[h] * 1e6), round(drifts[h], 6)) for h in range(config.hosts)]


def _in_order(collectives: list[Collective]) -> list[Collective]:
    """Number collectives by the time their last member arrived."""
    ordered = sorted(collectives, key=lambda c: (max(_starts(c)), c.group.name, c.sequence))
    for index, collective in enumerate(ordered):
        collective.index = index
    return ordered


def _starts(collective: Collective) -> list[int]:
    return [member.task.start for member in collective.members.values() if member.task is not None]
