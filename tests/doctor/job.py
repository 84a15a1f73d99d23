"""What a simulated training job is: a model as operators with costs, and everything about its surroundings that costs time.

A Job is a value: a cause of slowness is one field changed, and taking the cause away is the field changed back (causes.py).
Times are nanoseconds. Kernel times are those of an A100 in the order of magnitude; only their proportions matter here.
"""
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, Optional, Tuple

US, MS, MB = 1_000, 1_000_000, 1 << 20
AT = "void at::native::"
BANDWIDTH = 1500.0  # of the GPU's memory, bytes a nanosecond
KERNEL_FLOOR = 2 * US  # a kernel that does nothing
TENSOR_CORES_GAIN = 4.0  # of a matrix product in bf16 over one in float without tensor cores


class Kernel(NamedTuple):
    name: str
    ns: float


class Op(NamedTuple):
    """An operator as PyTorch's profiler shows it; of a backward pass: the autograd node's name, and the gradients it leaves."""
    name: str
    inner: str
    kernels: Tuple[Kernel, ...]
    dims: str = "[]"
    grads: Tuple[int, ...] = ()  # elements of each parameter whose gradient is complete now
    host_ns: float = 0  # of Python around it, besides the usual


class Layer(NamedTuple):
    name: str
    forward: Tuple[Op, ...]
    backward: Tuple[Op, ...]


class Slow(NamedTuple):
    """One rank that is not like the others: its kernels, its host code or its loader."""
    rank: int
    kind: str  # compute, host, data
    factor: float


@dataclass(frozen=True)
class Job:
    ranks: int = 4
    gpu: str = "A100"  # "" trains on CPUs over gloo
    model: str = "transformer"  # or convnet, mlp
    depth: int = 8
    width: int = 768
    scale: float = 1.0  # of all computation
    precision: str = "bf16"  # float: matrix products without tensor cores
    chain: int = 0  # pointwise operators in a row, in each layer
    chain_ns: float = 12 * US
    fused: bool = True  # the chain is one kernel
    parallel: str = "ddp"  # or fsdp, none
    bucket_mb: float = 25
    in_ready_order: bool = True  # buckets are filled in the order in which gradients come
    busbw_gbps: float = 100.0  # of collectives over all ranks
    latency_ns: float = 30 * US
    prefetch: bool = True  # fsdp: the next unit's parameters are on their way while this one computes
    pairs: bool = False  # tensor parallelism over pairs of ranks
    pair_gbps: float = 150.0
    slow_pair: Optional[int] = None
    slow_pair_factor: float = 1.0
    optimizer: str = "fused"  # or foreach, loop
    recompute: bool = False  # forward again in the backward pass
    loader_ns: float = 0.3 * MS  # between two batches of the loader
    workers: int = 4  # 0: the training thread loads
    input_bytes: int = 2 * MB
    pinned: bool = True
    pageable_gbps: float = 4.0
    syncs: int = 0  # layers after which the host asks the GPU for a value
    sync_host_ns: float = 0.0  # what the host does with it
    sync_waits: bool = True  # False: the value is fetched later, the host does its work without waiting
    host: float = 1.0  # cost of host code
    read_loss: bool = True  # at the end of each step; else the host runs ahead until the launch queue is full
    slow: Optional[Slow] = None
    free_collectives: bool = False  # a collective ends when its last rank comes

    def but(self, **changes):
        return replace(self, **changes)


# What a profiler says of a GPU, and how fast its host link is.
GPUS = {
    "A100": dict(name="NVIDIA A100-SXM4-80GB", major=8, minor=0, sms=108, memory=85_000_000_000, pinned_gbps=24.0),
    "H100": dict(name="NVIDIA H100 80GB HBM3", major=9, minor=0, sms=132, memory=85_000_000_000, pinned_gbps=48.0),
    "V100": dict(name="Tesla V100-SXM2-32GB", major=7, minor=0, sms=80, memory=34_000_000_000, pinned_gbps=12.0),
}


def _pointwise(functor, dtype):
    return f"{AT}vectorized_elementwise_kernel<4, at::native::{functor}<{dtype}>, std::array<char*, 3ul> >(int, at::native::{functor}<{dtype}>, std::array<char*, 3ul>)"


class _Names:
    """The kernels' names and times in one precision, on one generation of GPUs."""

    def __init__(self, job):
        self.low = job.precision != "float"
        self.type = "c10::BFloat16" if self.low else "float"
        self.arch = {"A100": "ampere", "H100": "sm90_xmma", "V100": "volta"}.get(job.gpu, "ampere")
        self.scale = job.scale

    def gemm(self, us, tile="128x128", turn="tn"):
        if self.low:
            name = (f"sm90_xmma_gemm_bf16bf16_bf16f32_f32_{turn}_n_tilesize{tile}x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"
                    if self.arch == "sm90_xmma" else f"{self.arch}_bf16_s16816gemm_bf16_{tile}_ldg8_f2f_stages_32x5_{turn}")
        else:
            name = f"{'ampere' if self.arch == 'sm90_xmma' else self.arch}_sgemm_{tile}_{turn}"
        return Kernel(name, us * US * self.scale * (1 if self.low else TENSOR_CORES_GAIN))

    def conv(self, us, what):
        if self.low:
            name = f"sm80_xmma_{what}_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_stage4_warpsize2x2x1_g1_tensor16x8x16_kernel_cudnn"
        else:
            name = f"void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, false, false, true>({what})"
        return Kernel(name, us * US * self.scale * (1 if self.low else TENSOR_CORES_GAIN))

    def attention(self, us, way):
        name = (f"void pytorch_flash::flash_{way}_kernel<pytorch_flash::Flash_{way}_kernel_traits<64, 128, 64, 4, false, false, cutlass::bfloat16_t> >(pytorch_flash::Flash_{way}_params)"
                if self.low else f"fmha_cutlass{'F' if way == 'fwd' else 'B'}_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float, cutlass::arch::Sm80, true, 64, 64, 64, true, true>::Params)")
        return Kernel(name, us * US * self.scale * (1 if self.low else TENSOR_CORES_GAIN))

    def pointwise(self, us, functor):
        return Kernel(_pointwise(functor, self.type), us * US * self.scale * (1 if self.low else 2))

    def plain(self, us, name):  # the same in every precision: autocast leaves it in float
        return Kernel(name, us * US * self.scale)


LAYER_NORM = AT + "(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float, float const*, float const*, float const*, float*, float*, float*)"
LAYER_NORM_GRAD = AT + "(anonymous namespace)::layer_norm_grad_input_kernel_vectorized<float, float>(float const*, float const*, float const*, float const*, float const*, float*, int)"
BATCH_NORM = "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(cudnnTensorStruct, float const*, cudnnTensorStruct, float*, float const*, float const*, float, float, float*, float*, float*, float*, float, float)"
BATCH_NORM_GRAD = "void cudnn::bn_bw_1C11_singleread<float, 512, true, 1, 2, 14>(float, float, float, float, cudnnTensorStruct, float const*, cudnnTensorStruct, float const*, cudnnTensorStruct, float*, float const*, float*, float*, float const*, float const*, float)"
REDUCE = AT + "reduce_kernel<128, 4, at::native::ReduceOp<float, at::native::func_wrapper_t<float, at::native::sum_functor<float, float, float> >, unsigned int, float, 4> >(...)"


def _chain(job, names, backward):
    """A row of pointwise operators, written out by hand or fused by a compiler into one kernel."""
    if not job.chain:
        return ()
    ns = job.chain_ns
    if job.fused:
        kernel = Kernel("triton_poi_fused_add_mul_rsqrt_sigmoid_0", ns)
        return (Op("CompiledFunctionBackward" if backward else "CompiledFunction", "triton_poi_fused_add_mul_rsqrt_sigmoid_0", (kernel,)),)
    turns = (("aten::mul", "BinaryFunctor", "MulBackward0"), ("aten::add", "CUDAFunctor_add", "AddBackward0"), ("aten::sigmoid", "sigmoid_kernel_cuda", "SigmoidBackward0"),
             ("aten::rsqrt", "rsqrt_kernel_cuda", "RsqrtBackward0"), ("aten::sub", "CUDAFunctor_sub", "SubBackward0"))
    dims = f"[[8, 1024, {job.width}], [8, 1024, {job.width}]]"
    ops = []
    for i in range(job.chain):
        name, functor, node = turns[i % len(turns)]
        ops.append(Op(node if backward else name, name if backward else "", (Kernel(_pointwise(functor, names.type), ns * (0.9 + 0.1 * (i % 3 == 0))),), dims))
    return tuple(ops)


def _transformer_layer(job, name):
    n, d = _Names(job), job.width
    x, h = f"[8192, {d}]", f"[8192, {4 * d}]"
    linear = lambda us, i, o: Op("aten::linear", "aten::addmm", (n.gemm(us),), f"[[{o}], [8192, {i}], [{i}, {o}], [], []]")
    norm = Op("aten::layer_norm", "aten::native_layer_norm", (n.plain(18, LAYER_NORM),), f"[[8, 1024, {d}], [], [{d}], [{d}], [], []]")
    drop = Op("aten::dropout", "aten::native_dropout", (n.pointwise(22, "FusedDropout"),), f"[{x}, [], []]")
    add = Op("aten::add", "aten::add", (n.pointwise(20, "CUDAFunctor_add"),), f"[{x}, {x}, []]")
    forward = (norm, linear(160, d, 3 * d),
               Op("aten::scaled_dot_product_attention", "aten::_flash_attention_forward", (n.attention(140, "fwd"),), f"[[8, {d // 64}, 1024, 64]]"),
               linear(62, d, d), drop, add, norm, linear(210, d, 4 * d),
               Op("aten::gelu", "aten::gelu", (n.pointwise(36, "GeluCUDAKernelImpl"),), f"[{h}, []]"),
               linear(205, 4 * d, d), drop, add) + _chain(job, n, False)

    def products(us, i, o):  # one for the input, one for the weight, a sum for the bias
        return Op("AddmmBackward0", "aten::mm", (n.gemm(us, turn="nn"), n.gemm(us * 1.05, turn="nt"), n.plain(20, REDUCE)), f"[[8192, {o}], [{o}, {i}]]", (o, i * o))
    norm_grad = Op("NativeLayerNormBackward0", "aten::native_layer_norm_backward", (n.plain(42, LAYER_NORM_GRAD),), f"[[8, 1024, {d}]]", (d, d))
    drop_grad = Op("NativeDropoutBackward0", "aten::native_dropout_backward", (n.pointwise(24, "MaskedScale"),), f"[{x}]")
    backward = _chain(job, n, True) + (
        drop_grad, products(202, 4 * d, d), Op("GeluBackward0", "aten::gelu_backward", (n.pointwise(50, "GeluBackwardCUDAKernelImpl"),), f"[{h}, {h}]"),
        products(208, d, 4 * d), norm_grad, drop_grad, products(62, d, d),
        Op("ScaledDotProductFlashAttentionBackward0", "aten::_flash_attention_backward", (n.attention(380, "bwd"),), f"[[8, {d // 64}, 1024, 64]]"),
        products(158, d, 3 * d), norm_grad)
    return Layer(name, forward, backward)


def _convnet_layer(job, name):
    place = int(name.split(".")[1])
    n, c = _Names(job), int(job.width // 4 * (0.7 + 0.6 * place / job.depth))  # channels grow, pictures shrink
    x = f"[64, {c}, 28, 28]"
    conv = lambda us: Op("aten::conv2d", "aten::cudnn_convolution", (n.conv(us, "fprop"),), f"[{x}, [{c}, {c}, 3, 3], [], [], [], [], []]")
    norm = Op("aten::batch_norm", "aten::cudnn_batch_norm", (n.plain(28, BATCH_NORM),), f"[{x}, [{c}], [{c}], [{c}], [{c}]]")
    relu = Op("aten::relu_", "aten::clamp_min_", (n.pointwise(15, "clamp_min"),), f"[{x}]")
    add = Op("aten::add_", "aten::add_", (n.pointwise(17, "CUDAFunctor_add"),), f"[{x}, {x}]")
    forward = (conv(130), norm, relu, conv(124), norm, relu, conv(90), norm, add, relu) + _chain(job, n, False)

    def conv_grad(us):
        return Op("ConvolutionBackward0", "aten::convolution_backward", (n.conv(us, "dgrad"), n.conv(us * 1.1, "wgrad")), f"[{x}, {x}]", (c * c * 9,))
    norm_grad = Op("CudnnBatchNormBackward0", "aten::cudnn_batch_norm_backward", (n.plain(44, BATCH_NORM_GRAD),), f"[{x}, {x}]", (c, c))
    relu_grad = Op("ReluBackward0", "aten::threshold_backward", (n.pointwise(20, "threshold_kernel"),), f"[{x}, {x}]")
    backward = _chain(job, n, True) + (relu_grad, norm_grad, conv_grad(92), relu_grad, norm_grad, conv_grad(126), relu_grad, norm_grad, conv_grad(131))
    return Layer(name, forward, backward)


def _mlp_layer(job, name):
    """On CPUs: the times are those of the operator itself."""
    d = job.width
    cpu = lambda us: (Kernel("", us * US * job.scale),)
    forward = (Op("aten::linear", "aten::addmm", cpu(900), f"[[{d}], [64, {d}], [{d}, {d}], [], []]"), Op("aten::relu", "aten::clamp_min", cpu(60), f"[[64, {d}], []]"))
    backward = (Op("ReluBackward0", "aten::threshold_backward", cpu(70), f"[[64, {d}], [64, {d}], []]"),
                Op("AddmmBackward0", "aten::mm", cpu(1850), f"[[64, {d}], [{d}, {d}]]", (d, d * d)))
    return Layer(name, forward, backward)


@lru_cache(maxsize=64)
def layers(job):
    make = {"transformer": _transformer_layer, "convnet": _convnet_layer, "mlp": _mlp_layer}[job.model]
    return tuple(make(job, f"layers.{i}") for i in range(job.depth))


def ready_order(job):
    """The gradients in the order in which the backward pass completes them: elements of each."""
    return tuple(g for layer in reversed(layers(job)) for op in layer.backward for g in op.grads)


def bucket_plan(job):
    """Buckets in the order in which they are sent, each the places of its gradients in ready_order().

    Filled as DDP fills them: a small first one, then up to the cap. DDP begins with the reverse of the order in which
    parameters were registered; here a job that stays so has a layer that is registered last and used first.
    """
    sizes = ready_order(job)
    order = list(range(len(sizes)))
    if not job.in_ready_order:
        last = len(sizes) - len([g for op in layers(job)[0].backward for g in op.grads])
        order = order[last:] + order[:last]
    buckets, full, cap = [[]], 0, min(1.0, job.bucket_mb) * MB
    for place in order:
        if full >= cap:
            buckets.append([])
            full, cap = 0, job.bucket_mb * MB
        buckets[-1].append(place)
        full += 4 * sizes[place]
    return buckets


# An AdamW step written as a loop over parameters: operator, and tensors read and written by its kernel.
ADAMW_LOOP = (("aten::mul_", 2), ("aten::lerp_", 3), ("aten::mul_", 2), ("aten::addcmul_", 3), ("aten::sqrt", 2), ("aten::div_", 2), ("aten::add_", 2), ("aten::addcdiv_", 4))
ADAMW_FUSED = 7  # p, gradient, m, v read; p, m, v written
TENSORS_A_LAUNCH = 48  # whose addresses fit into a kernel's arguments


def _at_bandwidth(elements, tensors):
    return KERNEL_FLOOR + elements * 4 * tensors / BANDWIDTH


@lru_cache(maxsize=64)
def optimizer_ops(job):
    shard = job.ranks if job.parallel == "fsdp" else 1
    sizes = [max(1, g // shard) for g in ready_order(job)]
    chunks = [sizes[i:i + TENSORS_A_LAUNCH] for i in range(0, len(sizes), TENSORS_A_LAUNCH)]
    if not job.gpu:
        return tuple(Op("aten::add_", "", (Kernel("", g * 0.6),), f"[[{g}], [{g}], []]") for g in sizes)
    if job.optimizer == "loop":
        return tuple(Op(name, "", (Kernel(_pointwise(name[6:].strip("_") + "_functor", "float"), _at_bandwidth(g, tensors)),), f"[[{g}], [{g}], []]")
                     for g in sizes for name, tensors in ADAMW_LOOP)
    if job.optimizer == "foreach":
        apply = AT + "(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<3>, at::native::(anonymous namespace)::PointwiseOpScalarListFunctor<float, 3, 3, 0> >(...)"
        return tuple(Op("aten::_foreach_" + name[6:], "", tuple(Kernel(apply, _at_bandwidth(sum(c), tensors)) for c in chunks)) for name, tensors in ADAMW_LOOP)
    apply = AT + "(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false> >(...)"
    return (Op("aten::_fused_adamw_", "", tuple(Kernel(apply, _at_bandwidth(sum(c), ADAMW_FUSED)) for c in chunks)),)
