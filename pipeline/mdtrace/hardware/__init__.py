"""Roofs of hardware: a table of accelerators, the user's own file, and a measurement of this machine."""
