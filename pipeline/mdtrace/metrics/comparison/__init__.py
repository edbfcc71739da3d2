"""Comparison of two runs: what changed per step, what of it is noise, and what explains the step time."""

from mdtrace.metrics.comparison.table import Comparison, compare

__all__ = ["Comparison", "compare"]
