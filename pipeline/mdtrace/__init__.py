"""mdtrace: where the time of a distributed training job goes, from the traces it already left."""

__version__ = "0.1.0"
