"""A simulated training job on GPUs, written as the traces that three tools would have made of it.

One ground truth: `job(Config(...))`. Three writers: `write_kineto`, `write_nsys`, `write_horovod`. The
answers: `Job.truth`, `write_truth`.
"""

from simulate.config import CAUSES, Config, Gpu, Link, Straggler
from simulate.horovod import can_horovod, write_horovod
from simulate.job import Clock, Job, job
from simulate.kineto import write_kineto
from simulate.nsys import write_nsys
from simulate.truth import write_truth

__all__ = [
    "CAUSES",
    "Clock",
    "Config",
    "Gpu",
    "Job",
    "Link",
    "Straggler",
    "can_horovod",
    "job",
    "write_horovod",
    "write_kineto",
    "write_nsys",
    "write_truth",
]
