"""Joins made once, after reading: nesting, launches, steps, layers, collectives."""
