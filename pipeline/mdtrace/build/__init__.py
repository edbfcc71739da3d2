"""Makes datasets of trace files."""
