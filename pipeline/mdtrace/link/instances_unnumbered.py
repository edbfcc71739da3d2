"""Matches collectives that carry no number: whole groups by aligned order, step by step where it must be."""

from collections.abc import Mapping

import numpy as np

from mdtrace.link.instances_order import align
from mdtrace.link.instances_rows import NONE, UNEVEN_KINDS, Ints, Rows, runs
from mdtrace.link.instances_seq import REASONS, Labels


def match_by_order(
    rows: Rows, where: Ints, capture: Ints, labels: Labels, steps_named: Mapping[int, bool]
) -> None:
    """Collectives of one group that carry no number: by aligned order, capture by capture."""
    tokens = _tokens(rows, where)
    for members in split_positions(capture[where]):
        sequences = [members[part] for part in split_positions(rows.process[where[members]])]
        sequences = [s[np.argsort(rows.start[where[s]], kind="stable")] for s in sequences]
        if len(sequences) < 2:
            if int(capture[where[members[0]]]):
                labels.refuse(where[members], "second capture of the rank")
            continue
        named = all(steps_named.get(int(rows.process[where[s[0]]]), False) for s in sequences)
        _align_steps(rows, where, tokens, sequences, labels, by_step=named)


def split_positions(by: Ints) -> list[Ints]:
    """The positions of each value, values ascending."""
    order = np.argsort(by, kind="stable")
    return [order[lo:hi] for lo, hi in runs(by[order])]


def _tokens(rows: Rows, where: Ints) -> Ints:
    """A number per row, equal for operations that can be one: same kind, type and size where known.

    A field that some capture never records is left out for all; sizes do not count for operations
    whose members may differ in size.
    """
    fields = [rows.kind[where]]
    for values in (rows.dtype[where], rows.bytes[where]):
        processes, inverse = np.unique(rows.process[where], return_inverse=True)
        known = np.bincount(inverse, values != NONE, minlength=len(processes))
        if known.all():
            fields.append(values)
    uneven = np.isin(fields[0], rows.codes(UNEVEN_KINDS))
    fields = [fields[0], *(np.where(uneven, NONE, f) for f in fields[1:])]
    _, tokens = np.unique(np.stack(fields, axis=1), axis=0, return_inverse=True)
    return tokens.reshape(-1).astype(np.int64)


def _align_steps(
    rows: Rows, where: Ints, tokens: Ints, sequences: list[Ints], labels: Labels, *, by_step: bool
) -> None:
    """Align whole sequences where all are equal, else step by step where the job numbers its steps."""
    steps = [_step_numbers(rows.step[where[s]]) for s in sequences]
    equal = all(np.array_equal(tokens[s], tokens[sequences[0]]) for s in sequences[1:])
    if equal and by_step:
        agreeing = [float(np.mean(s == steps[0])) for s in steps[1:] if len(s)]
        equal = not agreeing or min(agreeing) >= 0.5
    if equal or not by_step:
        _give_aligned(where, tokens, sequences, labels)
        return
    for step in np.unique(np.concatenate(steps)).tolist():
        parts = [s[n == step] for s, n in zip(sequences, steps, strict=True)]
        _give_aligned(where, tokens, parts, labels)


def _step_numbers(step: Ints) -> Ints:
    """Twice the step of each row; a row outside every step comes after the step before it."""
    position = np.where(step != NONE, np.arange(len(step)), -1)
    last = np.maximum.accumulate(position) if len(step) else position
    before = np.where(last >= 0, step[last], NONE // 4)
    numbers: Ints = 2 * before + (step == NONE)
    return numbers


def _give_aligned(where: Ints, tokens: Ints, sequences: list[Ints], labels: Labels) -> None:
    aligned, doubtful = align([tokens[s] for s in sequences])
    for own, members in zip(doubtful, sequences, strict=True):
        labels.reason[where[members[own]]] = REASONS.index("ambiguous order")
    if sequences:
        labels.give(where[np.concatenate(sequences)], np.concatenate(aligned), "order")
