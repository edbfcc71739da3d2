"""Horovod timelines: activities per tensor, collectives out of fused tensors, ranks' readiness."""

from mdtrace.ingest.horovod.reader import read_horovod

__all__ = ["read_horovod"]
