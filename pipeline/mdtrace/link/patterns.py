"""What names of host events mean: steps, phases, autograd nodes, module frames, collectives.

Names are free text, so each rule states the words it knows and takes nothing else.
"""

import re

_WORD = r"(?:^|[^a-z])(?<!micro)(?<!micro[_ -])"

# A step's number stands at the end of its text, perhaps in brackets, or before the total: "step 3/100".
STEP = re.compile(
    rf"""(?ix)
    (?: {_WORD} (?:train(?:ing)?[\s_-]*)? (?:step|iter(?:ation)?) | ^batch )
    [\s_\#:=.(\[-]* (\d{{1,18}}) (?:\s*/\s*\d+)? \W* $
    """
)
UNNUMBERED_STEP = re.compile(r"(?i)^(?:train(?:ing)?[\s_-]*)?(?:step|iteration)$")

# Parts of a step as annotations and NVTX ranges name them: alone, or behind the owner's name
# ("DistributedDataParallel.forward", "loss.backward", "Optimizer.step#SGD.step").
_OWNER = r"^\W*(?:[\w.]+[.:/ ]\s*)?"
_TAIL = r"(?:[\s_-]*(?:pass|step|prop|propagation))?\W*$"
FORWARD = re.compile(rf"(?i){_OWNER}(?:forward|fwd){_TAIL}")
BACKWARD = re.compile(rf"(?i){_OWNER}(?:backward|bwd){_TAIL}")
OPTIMIZER = re.compile(
    rf"(?i)^Optimizer\.(?:step|zero_grad)\b|{_OWNER}(?:optimi[sz]er|optim)(?:[\s._-]*(?:step|update))?\W*$"
    rf"|^\W*(?:zero_grad|weight_update|param(?:eter)?_update)\W*$"
)

# Nodes of the autograd graph: the engine's own record, and the node's (AddmmBackward0, MyFunctionBackward).
AUTOGRAD = re.compile(r"^autograd::engine::evaluate_function|^torch::autograd::|^[A-Z]\w*Backward\d*$")
EVALUATE = re.compile(r"^autograd::engine::evaluate_function")
ACCUMULATE = re.compile(r"torch::autograd::AccumulateGrad$")

MODULE = re.compile(r"^nn\.Module: ")
LAYER_PREFIX = re.compile(r"(?i)^(?:nn\.module|layer|module): ?(?=.)")

# NVTX domains that libraries open for their own calls: such a range is no layer.
LIBRARY_DOMAIN = re.compile(
    r"(?i)^(?:nccl|rccl|mpi|nvshmem|ucx|ucc|cublas\w*|cudnn\w*|cusparse\w*|cusolver\w*|cufft\w*|curand\w*|cub|cccl"
    r"|thrust|libcudf|cudf|rapids|dali|nvjpeg|cutensor\w*|openmp|openacc|oneapi|kokkos)\b"
)

# Calls of libraries that appear as ranges, where the file does not name their domain.
LIBRARY_CALL = re.compile(
    r"^(?:P?[nr]ccl[A-Z]|P?MPI_[A-Z]|cu(?:dnn|blas|sparse|solver|fft)\w*[A-Z_]|nvshmemx?_)"
)

# Ranges named like a collective. Words that mean other things too (gather, reduce, send …) count only behind
# the name of a communication library, or alone.
_SURE = (
    r"all[_-]?reduce|all[_-]?gather(?:v|[_-]?into[_-]?tensor|[_-]?base)?|reduce[_-]?scatter(?:[_-]?tensor)?"
    r"|all[_-]?to[_-]?all(?:v|[_-]?single|[_-]?base)?"
)
_UNSURE = r"broadcast|bcast|barrier|reduce|gatherv?|scatterv?|i?send|i?recv|send[_-]?recv"
COLLECTIVE_RANGE = re.compile(
    rf"""(?ix) ^\W*
    (?: (?:p?nccl|p?rccl|p?mpi_i?|gloo[:_]|dist(?:ributed)?\.|hvd\.|horovod[._]) _? (?:{_SURE}|{_UNSURE})
      | (?:[\w.]*[.:/_ ])? (?:{_SURE}) )
    (?![a-z]) [^/]* $
    | ^\W* (?:{_UNSURE}) \W* $
    """
)

# Records that communication backends leave of their operations (the profiler's own "gloo:all_reduce", nsys's
# of MPI calls), and the operators around these.
_MPI = r"P?MPI_I?[A-Z]"
BACKEND = re.compile(rf"^(?:nccl|rccl|gloo|mpi|ucc|xccl|hccl|oneccl|mccl)x?:\w|^{_MPI}")
BESIDE_KERNELS = re.compile(rf"^(?:gloo|mpi):\w|^{_MPI}")
ENCLOSING = re.compile(
    r"^(?:c10d|_c10d_functional|c10d_functional)::\w|^record_param_comms$"
    r"|^\w+::\w*(?:all_?reduce|all_?gather|reduce_?scatter|all_?to_?all)"
)
