"""The model that the job trains: pairs of Linear and ReLU in bf16, its FLOPs, bytes and kernels."""

from dataclasses import dataclass

from simulate.config import Config, Gpu

ELEMENT = 2  # bytes of a bf16 number
DTYPE = "bf16"
TORCH_TYPE = "c10::BFloat16"
INPUT_FEATURES = 1024
# Width of the layers in turn, so that gradients have several sizes.
PATTERN = (1.0, 0.5, 0.25)

# Kernel names as the libraries spell them.
GEMM = (
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_{layout}_n_tilesize128x128x64_warpgroupsize1x1x1"
    "_execute_segment_k_off_kernel__5x_cublas"
)
ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::{functor}<c10::BFloat16>, "
    "std::array<char*, {arrays}ul> >(int, at::native::{functor}<c10::BFloat16>, "
    "std::array<char*, {arrays}ul>)"
)
REDUCE = (
    "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<c10::BFloat16, "
    "at::native::func_wrapper_t<c10::BFloat16, at::native::sum_functor<c10::BFloat16, float, "
    "c10::BFloat16> >, unsigned int, c10::BFloat16, 4> >(at::native::ReduceOp<c10::BFloat16>)"
)
FOREACH = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<"
    "at::native::(anonymous namespace)::TensorListMetadata<2>, "
    "at::native::(anonymous namespace)::BinaryOpListAlphaFunctor<c10::BFloat16, 2, 2, 0> >"
)


@dataclass(frozen=True)
class Kernel:
    """A kernel to run: its name, what it costs and how it is launched."""

    name: str
    duration: float
    grid: tuple[int, int, int]
    block: tuple[int, int, int] = (128, 1, 1)
    registers: int = 32
    shared: int = 0


@dataclass(frozen=True)
class Layer:
    """A Linear and the ReLU behind it, on the ranks of one pipeline stage.

    Attributes:
        inputs, outputs: features; `inputs` is this rank's share where ranks share the layer.
        first: nothing needs the gradient of its input.
    """

    index: int
    stage: int
    inputs: int
    outputs: int
    first: bool

    @property
    def parameters(self) -> tuple[tuple[str, int], ...]:
        """Names and elements, in the order the module declares them."""
        return (
            (f"layers.{self.index}.weight", self.inputs * self.outputs),
            (f"layers.{self.index}.bias", self.outputs),
        )

    @property
    def elements(self) -> int:
        return sum(size for _, size in self.parameters)

    def flops_forward(self, rows: int) -> int:
        return 2 * rows * self.inputs * self.outputs

    def flops_backward(self, rows: int) -> int:
        """Gradient of the weight, and of the input where somebody needs it."""
        return self.flops_forward(rows) * (1 if self.first else 2)


def layers(config: Config) -> list[Layer]:
    """All layers in the order they run."""
    found: list[Layer] = []
    inputs = INPUT_FEATURES
    for index in range(config.layers):
        outputs = max(64, int(config.width * PATTERN[index % len(PATTERN)]))
        stage = index * config.pipeline // config.layers
        found.append(Layer(index, stage, max(1, inputs // config.tensor), outputs, index == 0))
        inputs = outputs
    return found


def gemm(gpu: Gpu, layout: str, rows: int, columns: int, inner: int) -> Kernel:
    """A matrix product of rows × inner by inner × columns."""
    grid = (-(-columns // 128), -(-rows // 128), 1)
    duration = 3_000 + 2e9 * rows * columns * inner / gpu.flops_per_s
    return Kernel(GEMM.format(layout=layout), duration, grid, (384, 1, 1), 168, 213_248)


def elementwise(gpu: Gpu, functor: str, elements: int, operands: int) -> Kernel:
    """One number computed for each element, from `operands` − 1 inputs."""
    duration = 2_000 + 1e9 * elements * operands * ELEMENT / gpu.achieved_bytes_per_s
    return Kernel(
        ELEMENTWISE.format(functor=functor, arrays=operands), duration, (-(-elements // 4096), 1, 1)
    )


def column_sum(gpu: Gpu, rows: int, columns: int) -> Kernel:
    duration = 2_500 + 1e9 * rows * columns * ELEMENT / gpu.achieved_bytes_per_s
    return Kernel(REDUCE, duration, (-(-columns // 128), 1, 1), (32, 16, 1), 40, 16_384)


def update(gpu: Gpu, elements: int) -> Kernel:
    """Reads parameter and gradient, writes the parameter."""
    duration = 2_500 + 1e9 * 3 * elements * ELEMENT / gpu.achieved_bytes_per_s
    return Kernel(FOREACH, duration, (-(-elements // 65_536), 1, 1), (512, 1, 1), 48)


def forward(gpu: Gpu, layer: Layer, rows: int) -> list[Kernel]:
    return [
        gemm(gpu, "tn", rows, layer.outputs, layer.inputs),
        elementwise(gpu, "CUDAFunctorOnSelf_clamp_min", rows * layer.outputs, 2),
    ]


def backward(gpu: Gpu, layer: Layer, rows: int) -> list[Kernel]:
    """ReLU, gradient of the input (not of the first layer), of the weight, of the bias."""
    kernels = [elementwise(gpu, "threshold_backward", rows * layer.outputs, 3)]
    if not layer.first:
        kernels.append(gemm(gpu, "nn", rows, layer.inputs, layer.outputs))
    kernels.append(gemm(gpu, "nt", layer.outputs, layer.inputs, rows))
    kernels.append(column_sum(gpu, rows, layer.outputs))
    return kernels


def compute_ns(config: Config, stage: int, rows: int) -> float:
    """What forward and backward of one stage take without jitter."""
    own = [layer for layer in layers(config) if layer.stage == stage]
    return sum(
        kernel.duration
        for layer in own
        for kernel in forward(config.gpu, layer, rows) + backward(config.gpu, layer, rows)
    )
