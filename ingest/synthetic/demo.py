"""The demo capture: eight training steps of two ranks on two GPUs, with everything about it known in advance.

What is planted, for an analysis to find: rank 0 wakes up late from `aten::item` in every step, latest in step 3, and
its GPU stands idle meanwhile; rank 1's data loader stalls in step 5, so that rank 0 waits for it inside a collective;
half of each batch comes from pageable memory; one matrix product does not use tensor cores; the last all-reduce of a
step hides behind nothing.
"""

from .model import (
    Capture,
    CudaDevice,
    Domain,
    Gpu,
    Mark,
    NcclPayload,
    OsrtCall,
    Process,
    Range,
    Running,
    Sample,
    Stream,
    ThreadName,
)
from .rank import COMPUTE, CONTEXT, COPY, MS, NCCL, NCCL_DOMAIN, PAGEABLE, PINNED, US, Rank, Shape
from .truth import Truth, capture_truth

BEGIN = 73_104_220_517
PIDS = (4101, 4102)
ITERATIONS = 8
LAYERS = 4
LATE_WAKE_UP_ITERATION = 3
SLOW_ITERATION = 5
SLOW_RANK = 1
BATCH_BYTES = 8 << 20
COMMUNICATOR = 0x8F3C_5A1D_2E9B_7046
SCATTERED_BYTES = 48 << 20
REDUCED_BYTES = 64 << 20
SUM = 0
SLEEPING = 2

GEMM = Shape("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT", 610 * US, dynamic_shared=213_204, driver=True)
FLASH = Shape(
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)64, (int)128, (int)128, (int)4, (bool)0, (bool)0, "
    "cutlass::bfloat16_t, Flash_kernel_traits<(int)64, (int)128, (int)128, (int)4, cutlass::bfloat16_t>>, (bool)0, "
    "(bool)1, (bool)0, (bool)0, (bool)1, (bool)1, (bool)0, (bool)0>(flash::Flash_fwd_params)",
    340 * US,
    grid=(16, 8, 16),
    block=(128, 1, 1),
    registers=254,
    dynamic_shared=49_152,
)
GELU = Shape(
    "void at::native::vectorized_elementwise_kernel<(int)8, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase &, "
    "at::native::GeluType)::[lambda() (instance 2)]::operator ()() const::[lambda(c10::BFloat16) (instance 1)], "
    "std::array<char *, (unsigned long)2>>(int, T2, T3)",
    58 * US,
    grid=(16_384, 1, 1),
    block=(128, 1, 1),
    registers=30,
)
SGEMM = Shape(
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x64x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_kernel"
    "__5x_cublas",
    270 * US,
    block=(128, 1, 1),
    registers=122,
    both_apis=True,
)
GEMM_BACKWARD = Shape(
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x256_32x3_tn_align8>(T1::Params)",
    780 * US,
    block=(256, 1, 1),
    registers=236,
    dynamic_shared=73_728,
)
GELU_BACKWARD = Shape(
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::GeluBackwardCUDAKernelImpl("
    "at::TensorIteratorBase &, at::native::GeluType)::[lambda() (instance 2)]::operator ()() const::"
    "[lambda(c10::BFloat16) (instance 1)], std::array<char *, (unsigned long)3>>(int, T2, T3)",
    86 * US,
    grid=(32_768, 1, 1),
    block=(128, 1, 1),
    registers=34,
)
ADAM = Shape(
    "void at::native::<unnamed>::multi_tensor_apply_kernel<at::native::<unnamed>::FusedOptimizerTensorListMetadata"
    "<(int)4>, at::native::<unnamed>::FusedAdamMathFunctor<float, (int)4, (at::native::ADAM_MODE)1, (bool)0>, float, "
    "const float *, double>(T1, T2, T3...)",
    430 * US,
    grid=(320, 1, 1),
    block=(512, 1, 1),
    registers=56,
)
REDUCE_SCATTER = Shape(
    "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
    920 * US,
    grid=(24, 1, 1),
    block=(544, 1, 1),
    registers=96,
    dynamic_shared=82_240,
    driver=True,
)
ALL_REDUCE = Shape(
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
    460 * US,
    grid=(24, 1, 1),
    block=(544, 1, 1),
    registers=96,
    dynamic_shared=82_240,
    driver=True,
)


def demo_capture() -> tuple[Capture, Truth]:
    """The demo capture and what is true of it; the same at every call, on every machine."""
    processes = [Process(pid, vm=1, name="python3", command=("train.py", "--layers", "4")) for pid in PIDS]
    capture = Capture(
        processes=processes,
        gpus=[Gpu(i, "NVIDIA H100 80GB HBM3", "GH100", 3_352_320_000_000, 84_942_979_072, 132, i) for i in (0, 1)],
        cuda_devices=[CudaDevice(gpu, gpu, pid) for pid in PIDS for gpu in (0, 1)],
        streams=[Stream(pid, CONTEXT, stream) for pid in PIDS for stream in (COMPUTE, NCCL, COPY)],
        domains=[Domain(pid, NCCL_DOMAIN, "NCCL") for pid in PIDS],
        session=(BEGIN - 900 * MS, BEGIN + 700 * MS),
        host="gpu-node-01",
        user="trainer",
    )
    ranks = [Rank(i, process, capture, BEGIN + i * 37 * US) for i, process in enumerate(processes)]
    for rank in ranks:
        _already_running(rank)
        _create_communicator(rank)
    for iteration in range(ITERATIONS):
        _train_step(ranks, iteration)
    for rank in ranks:
        _host_threads(rank)
    return capture, capture_truth(capture, PIDS)


def _already_running(rank: Rank) -> None:
    """Kernels whose launch came before the recording, so that they have no API call."""
    for number, shape in enumerate((GEMM, GELU, ADAM)):
        rank.place(shape, 500 + number, COMPUTE, max(rank.now - 150 * US, rank.free[COMPUTE] + 800), shape.ns)


def _create_communicator(rank: Rank) -> None:
    """The call that makes the communicator, before the first step."""
    payload = NcclPayload(COMMUNICATOR, ranks=len(PIDS), rank=rank.rank)
    where = (rank.now + 20 * US, rank.now + 130 * US, rank.pid, rank.pid)
    rank.capture.ranges.append(Range(*where, "ncclCommInitRank", domain=NCCL_DOMAIN, registered=True, payload=payload))


def _train_step(ranks: list[Rank], iteration: int) -> None:
    for rank in ranks:
        rank.spend(160 * US)
        rank.push(f"iteration {iteration}")
        rank.steps.append(rank.now)
        _load_batch(rank, iteration)
        _forward(rank, iteration)
        rank.push("backward")
    for layer in reversed(range(LAYERS)):
        for rank in ranks:
            _backward_layer(rank, iteration, layer)
        if layer % 2 == 1:
            _collective(ranks, "ncclReduceScatter", REDUCE_SCATTER, SCATTERED_BYTES)
    _collective(ranks, "ncclAllReduce", ALL_REDUCE, REDUCED_BYTES)
    for rank in ranks:
        rank.pop()
        _optimizer(rank)
        rank.read_scalar(_wake_up(rank, iteration))
        rank.spend(210 * US)
        rank.pop()


def _load_batch(rank: Rank, iteration: int) -> None:
    stalls = (rank.rank, iteration) == (SLOW_RANK, SLOW_ITERATION)
    rank.spend(7 * MS if stalls else 480 * US)
    rank.upload(BATCH_BYTES, PAGEABLE)
    rank.upload(BATCH_BYTES, PINNED)
    rank.clear(64 << 20)


def _forward(rank: Rank, iteration: int) -> None:
    rank.push("forward")
    batch_ready = rank.wait_for(COPY)
    for layer in range(LAYERS):
        rank.push(f"layer {layer}")
        rank.push_op("aten::linear", seq=iteration * LAYERS + layer)
        rank.run(GEMM, after=batch_ready)
        rank.pop()
        rank.push_op("aten::scaled_dot_product_attention", seq=iteration * LAYERS + layer)
        rank.run(FLASH)
        rank.pop()
        rank.run(GELU)
        if layer == LAYERS - 1:
            rank.run(SGEMM)
        rank.pop()
    rank.pop()


def _backward_layer(rank: Rank, iteration: int, layer: int) -> None:
    rank.push_op("autograd::engine::evaluate_function: AddmmBackward0", seq=iteration * LAYERS + layer)
    rank.run(GELU_BACKWARD)
    rank.run(GEMM_BACKWARD)
    rank.pop()


def _collective(ranks: list[Rank], name: str, shape: Shape, size: int) -> None:
    """Every rank launches; each kernel starts when its rank is ready, and all end when the last one is served."""
    launched: list[tuple[Rank, int, int]] = []
    for rank in ranks:
        rank.push(name, NCCL_DOMAIN, NcclPayload(COMMUNICATOR, size, reduction=SUM))
        correlation = rank.launch(shape)
        rank.pop()
        launched.append((rank, correlation, rank.ready(NCCL, after=rank.free[COMPUTE])))
    end = max(start for _, _, start in launched) + shape.ns
    for rank, correlation, start in launched:
        rank.place(shape, correlation, NCCL, start, end + rank.rank * 640 - start)


def _optimizer(rank: Rank) -> None:
    rank.push("optimizer")
    gradients_ready = rank.wait_for(NCCL)
    rank.run(ADAM, after=gradients_ready)
    rank.run(ADAM)
    rank.pop()


def _wake_up(rank: Rank, iteration: int) -> int:
    """How long the host takes to notice that the GPU is done."""
    if rank.rank == 0:
        return (3_200 if iteration == LATE_WAKE_UP_ITERATION else 1_400 + 13 * iteration) * US
    return 1_900 * US if iteration == SLOW_ITERATION else 15 * US + 700 * iteration


def _host_threads(rank: Rank) -> None:
    """The data loader's thread: its OS calls, the range in which it prefetches, and a mark on the main thread."""
    capture, pid, loader = rank.capture, rank.pid, rank.pid + 40
    for number, start in enumerate(rank.steps):
        capture.osrt_calls.append(OsrtCall(start + 90 * US, start + 410 * US + 900 * number, pid, loader, "read"))
        capture.osrt_calls.append(OsrtCall(start + 600 * US, start + 8 * MS, pid, loader, "sem_timedwait"))
        _on_cpus(rank, start, loader)
    prefetch = (rank.steps[0] + 50 * US, rank.steps[2] + 300 * US)
    capture.ranges.append(Range(*prefetch, pid, pid, "prefetch epoch 0", style="startend", end_tid=loader))
    capture.marks.append(Mark(rank.steps[0] + 30 * US, pid, pid, "epoch 0"))
    capture.thread_names.append(ThreadName(pid, pid, "python3"))
    capture.thread_names.append(ThreadName(pid, loader, "pt_data_loader"))


def _on_cpus(rank: Rank, step: int, loader: int) -> None:
    """When the threads run in a step: the main one through its first 4 ms, the loader before and after it reads."""
    stretches = (
        (rank.pid, 0, 4 * MS, SLEEPING),
        (loader, 20 * US, 90 * US, SLEEPING),
        (loader, 410 * US, MS, SLEEPING),
    )
    for tid, start, end, state in stretches:
        cpu = 2 * rank.rank + (tid == loader)
        rank.capture.running.append(Running(step + start, step + end, rank.pid, tid, cpu, state))
        for at in range(start + 10 * US, end, 250 * US):
            rank.capture.samples.append(Sample(step + at, rank.pid, tid, cpu))
