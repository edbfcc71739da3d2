"""The peer of ingesting a Kineto trace: HTA loads it. Runs in HTA's own environment."""

import sys

from hta.common.trace import Trace

trace = Trace(trace_files={0: sys.argv[1]}, trace_dir="")
trace.parse_traces(use_multiprocessing=False)
print(len(trace.get_trace(0)))
