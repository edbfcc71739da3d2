"""The PyTorch profiler's (Kineto's) Chrome trace: events → staged rows, document keys → facts."""

from mdtrace.ingest.kineto.reader import read_kineto

__all__ = ["read_kineto"]
