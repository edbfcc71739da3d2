"""A dataset back to a trace for a viewer: every row, on aligned clocks, with verdicts beside them."""

from mdtrace.export.trace import Exported, export

__all__ = ["Exported", "export"]
