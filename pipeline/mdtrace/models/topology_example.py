"""The example of a topology file that the help shows; it stands apart to be had without heavy imports."""

EXAMPLE = """\
exchange = "ring"        # or "hierarchical": reduced inside nodes first, then between them

[[level]]                # from the closest links to the farthest
name = "nvlink"
gpus = 2                 # joins so many GPUs of a node

[[level]]
name = "pcie"
gpus = 8                 # without gpus: all of a node

[[level]]
name = "net"
between_nodes = true     # with nodes = 4: joins so many nodes

[runs.job16]             # what the dataset job16.mdtrace does not say
nodes = 2
batch = 32
"""
