"""Nsight Systems exports: SQLite databases of every schema version, and parquetdir folders."""

from mdtrace.ingest.nsys.reader import read_nsys

__all__ = ["read_nsys"]
