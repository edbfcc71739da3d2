"""Step time of a data-parallel job on a placement that was not run, from runs on others.

Each run gives a row: a constant, its per-GPU batch, the bytes its gradients move over each class of links
(`topology`), and its step time. The model (`topology_fit`) is checked by leaving out one placement after the
other; a placement that the runs do not identify is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mdtrace.errors import InputError
from mdtrace.models.topology import Placement, Topology, columns, features
from mdtrace.models.topology_fit import Model, fit

_BETTER = 0.8  # a form with more coefficients has to lower the held-out error to this share
_DOUBT = 0.15  # an error on its own runs from which the model is said not to hold
HINT = "mdtrace predict needs runs that differ in what the asked placement differs in from them"


@dataclass(frozen=True)
class Run:
    """A measured run: its name, placement and step time in seconds."""

    name: str
    placement: Placement
    step_s: float


@dataclass(frozen=True)
class Form:
    """Which model: with overlap of compute and exchange; with a latency for each class of links."""

    overlap: bool = False
    rounds: bool = False

    @property
    def text(self) -> str:
        """The form in words."""
        total = "compute and exchange overlap" if self.overlap else "compute plus exchange"
        return f"{total}, latency of links apart" if self.rounds else total


FORMS = (Form(), Form(overlap=True), Form(rounds=True), Form(overlap=True, rounds=True))


@dataclass(frozen=True)
class Prediction:
    """What a step takes: seconds in all, of compute and of exchange alone; `reason` where it is not known.

    Compute and exchange are None where the runs tell their sum alone.
    """

    step_s: float | None = None
    compute_s: float | None = None
    exchange_s: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Measured:
    """A run beside the model's answers: fitted on all runs, and without those on its placement."""

    run: Run
    link: str | None
    fitted: Prediction
    held_out: Prediction

    @property
    def error(self) -> float | None:
        """Relative error of the held-out prediction; its size is 1 − accuracy."""
        return None if self.held_out.step_s is None else self.held_out.step_s / self.run.step_s - 1


@dataclass(frozen=True)
class Asked:
    """A placement asked for, and the answer."""

    placement: Placement
    link: str | None
    prediction: Prediction


@dataclass(frozen=True)
class Study:
    """The answer of `predict`.

    Attributes:
        held_out: mean and largest error over the runs that a fit without their placement identifies, and how
            many these are; None where there is none.
        tried: forms that were compared by it.
        notes: what to know about the figures.
    """

    model: Model
    form: Form
    topology: Topology
    runs: tuple[Measured, ...]
    asked: tuple[Asked, ...]
    held_out: tuple[float, float, int] | None
    tried: int
    notes: tuple[str, ...] = field(default=())

    @property
    def accuracy(self) -> float | None:
        """Mean of 1 − |T̂ − T|/T over the held-out runs."""
        return None if self.held_out is None else 1 - self.held_out[0]


def predict(
    runs: Sequence[Run],
    asked: Sequence[Placement],
    topology: Topology,
    form: Form | None = None,
    *,
    weighted: bool = True,
) -> Study:
    """Fit the runs and predict placements.

    Args:
        form: which model; by default the one whose held-out error is least, a simpler one where it is close.
        weighted: by 1/T², so that relative errors count.

    Raises:
        InputError: there is no run, or the runs do not identify one of the asked placements.
        UsageError: the topology has no level for a placement.
    """
    if not runs:
        raise InputError("no run to predict from", HINT)
    forms = [form] if form is not None else [f for f in FORMS if _possible(f, runs)]
    studies = [_study(runs, asked, topology, f, weighted) for f in forms]
    answered = [s for s in studies if all(a.prediction.reason is None for a in s.asked)]
    if not answered:
        refused = next(a for a in studies[0].asked if a.prediction.reason is not None)
        raise InputError(f"{named(refused.placement)}: not identified: {refused.prediction.reason}", HINT)
    best = _best(answered)
    return Study(
        best.model, best.form, topology, best.runs, best.asked, best.held_out, len(answered), notes(best)
    )


def _possible(form: Form, runs: Sequence[Run]) -> bool:
    return not form.rounds or all(r.placement.messages is not None for r in runs if r.placement.gpus > 1)


def _best(studies: Sequence[Study]) -> Study:
    """The least held-out error, over runs that the simplest form can hold out too; in doubt the simplest."""
    best = studies[0]
    for study in studies[1:]:
        if best.held_out is None or study.held_out is None or study.held_out[2] < best.held_out[2]:
            continue
        if study.held_out[2] >= 3 and study.held_out[0] < _BETTER * best.held_out[0]:
            best = study
    return best


def _study(
    runs: Sequence[Run], asked: Sequence[Placement], topology: Topology, form: Form, weighted: bool
) -> Study:
    wanted = columns(topology, batch=_varies([*(run.placement for run in runs), *asked]), rounds=form.rounds)
    rows = np.array([features(topology, run.placement, wanted) for run in runs])
    times = np.array([run.step_s for run in runs])
    keys = [(r.placement.gpus, r.placement.nodes) for r in runs]

    def fitted(kept: np.ndarray) -> Model:
        return fit(rows[kept], times[kept], wanted, overlap=form.overlap, weighted=weighted)

    model = fitted(np.ones(len(runs), bool))
    measured = []
    for run, key, row in zip(runs, keys, rows, strict=True):
        kept = np.array([other != key for other in keys])
        held_out = _answer(fitted(kept), row) if kept.any() else Prediction(reason="the only placement")
        measured.append(Measured(run, topology.worst(run.placement), _answer(model, row), held_out))
    answers = tuple(
        Asked(p, topology.worst(p), _answer(model, features(topology, p, wanted), _enough(model)))
        for p in asked
    )
    errors = [abs(m.error) for m in measured if m.error is not None]
    held = (float(np.mean(errors)), max(errors), len(errors)) if errors else None
    return Study(model, form, topology, tuple(measured), answers, held, 1)


def _varies(places: Sequence[Placement]) -> bool:
    """Batches are known and differ; where they do not, the constant holds them."""
    batches = {place.batch for place in places}
    return None not in batches and len(batches) > 1


def _enough(model: Model) -> str | None:
    """Why γ is not known: it takes a run more than there are coefficients."""
    needed = int(np.count_nonzero(model.rows.any(axis=0))) + 1
    if model.overlap and len(np.unique(model.rows, axis=0)) < needed:
        return f"how far compute and exchange overlap takes {needed} different runs"
    return None


def _answer(model: Model, row: np.ndarray, reason: str | None = None) -> Prediction:
    why = reason or _enough(model) or model.unknown(row)
    if why is not None:
        return Prediction(reason=why)
    computes = np.array([column.computes for column in model.columns])
    if model.unknown(np.where(computes, row, 0.0)) is not None:
        return Prediction(model.step_s(row))  # the sum is known, its parts are not
    own, exchange = model.parts(row)
    return Prediction(model.step_s(row), own, exchange)


def named(placement: Placement) -> str:
    """A placement in words."""
    nodes = f"{placement.nodes} node{'s' * (placement.nodes > 1)}"
    batch = "" if placement.batch is None else f", batch {placement.batch:g}"
    return f"{placement.gpus} GPU{'s' * (placement.gpus > 1)} on {nodes}{batch}"


def notes(study: Study) -> tuple[str, ...]:
    """What to know: no held-out error, features seen once, extrapolation."""
    found = []
    if study.held_out is None:
        found.append(
            "No run can be predicted without its own placement: the error of the prediction is not known."
        )
    misses = [abs(m.fitted.step_s / m.run.step_s - 1) for m in study.runs if m.fitted.step_s is not None]
    if misses and max(misses) > _DOUBT:
        found.append(
            f"The model misses the runs it was fitted on by up to {100 * max(misses):.0f} %: it does not hold"
            " for them, and the prediction is not to be trusted. Do ranks share devices or cores?"
        )
    crossed = {a.link for a in study.asked if a.link is not None}
    for link in sorted(crossed):
        places = {
            (m.run.placement.gpus, m.run.placement.nodes) for m in study.runs if link in _used(study, m)
        }
        if len(places) == 1:
            found.append(f"Links {link} are seen on one placement: what they add has no held-out error.")
    for what, value in (("GPUs", "gpus"), ("samples per GPU", "batch")):
        seen = [getattr(m.run.placement, value) for m in study.runs]
        for asked in (getattr(a.placement, value) for a in study.asked):
            if asked is not None and None not in seen and not min(seen) <= asked <= max(seen):
                found.append(
                    f"{asked:g} {what} lie beyond the runs ({min(seen):g} to {max(seen):g}): extrapolated."
                )
    sizes = [m.run.placement.gradient_bytes for m in study.runs if m.run.placement.gpus > 1]
    if sizes and max(sizes) > 1.02 * min(sizes):
        found.append(
            f"Gradients of the runs differ: {min(sizes) / 1e6:.4g} to {max(sizes) / 1e6:.4g} MB a step."
        )
    if any(m.run.placement.batch is None for m in study.runs):
        found.append("Batches are not known of all runs: they are taken to be the same.")
    return tuple(dict.fromkeys(found))


def _used(study: Study, measured: Measured) -> set[str]:
    return {name for name, _ in study.topology.groups(measured.run.placement)}
