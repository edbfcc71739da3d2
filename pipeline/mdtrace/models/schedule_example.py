"""Examples of the scheduler's files that the help shows; they stand apart to be had without heavy imports."""

JOBS = """\
[[job]]
name = "vision"
gpus = 2
steps = 1000
arrival_s = 0
batch = 32
gradient_bytes = 102e6
constant_s = 0.016       # coefficients as mdtrace predict prints them
sample_s = 0.0027
gb_s = { nvlink = 0.0174, net = 0.342 }

[[job]]
name = "speech"
gpus = 2
steps = 1000
step_s = { nvlink = 0.100, net = 0.160 }   # or a step over each class of links
"""

CLUSTER = """\
nodes = 2
gpus_per_node = 2

[[level]]                # as in the topology file of mdtrace predict
name = "nvlink"

[[level]]
name = "net"
between_nodes = true
"""
