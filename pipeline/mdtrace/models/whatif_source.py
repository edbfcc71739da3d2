"""What a what-if is asked of: a dataset's folder, or an operation log."""

from pathlib import Path

from mdtrace.models.graph import dataset_job
from mdtrace.models.oplog import is_oplog, read_oplog
from mdtrace.models.oplog_graph import oplog_job
from mdtrace.models.replay_job import Job
from mdtrace.tables.dataset import open_dataset


def load(path: Path) -> Job:
    """Lay out a dataset, or an operation log in Parquet, for replay.

    Raises:
        DatasetError: the folder is no dataset.
        InputError: the file is no operation log, or there is nothing to replay.
        GraphError: operations wait for each other in a circle.
    """
    return oplog_job(read_oplog(path)) if is_oplog(path) else dataset_job(open_dataset(path))
