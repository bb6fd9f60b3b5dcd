"""What ingest infers from names is stored in the cache, so a change of these rules is a change of the format."""

import hashlib
import json

from nsys_evidence.ingest.gpu_metrics import says_tensor
from nsys_evidence.ingest.host_class import api_name, host_class
from nsys_evidence.ingest.kernel_names import collective_of, labels_of
from nsys_evidence.ingest.stacks import plain_names
from nsys_evidence.ingest.tables import FORMAT_VERSION

KERNELS = [
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x256_32x3_tn_align8>(T1::Params)",
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<float>, std::array<char *, 3>>",
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<float>, std::array<char *, 1>>()",
    "void at::native::vectorized_elementwise_kernel<(int)2, at::native::FillFunctor<long>, std::array<char *, 1>>()",
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma_aligna4_execute_kernel__5x_cublas",
    "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_execute_kernel__5x_cublas",
    "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
    "ncclDevKernel_Generic(ncclDevKernelArgsStorage<(unsigned long)4096>)",
    "nvshmemi_transfer_rma()",
    "pack_for_nccl_bucket_kernel(float*)",
]
CALLS = [
    "cudaLaunchKernel_v7000",
    "cuLaunchKernelEx",
    "cudaMemcpyAsync_v3020",
    "cuStreamSynchronize",
    "cuModuleLoadData",
]
CALLS += [
    "cudaMalloc_v3020",
    "cuMemUnmap",
    "cudaGraphLaunch_v10000",
    "cudaEventRecord_v3020",
    "cudaLaunchKernelExC_v11060",
]
RANGES = [
    "aten::linear, seq = 12, op_id = 34",
    "aten::mm, op_id = 1, sizes = [[1, 2], [2, 3]]",
    "iteration 3",
    "layer 17",
]

METRICS = ["Tensor Active [Throughput %]", "SM Issue [Throughput %]"]

RULES = dict.fromkeys((1, 2, 3, 4, 5), "f055d984c484ddbf") | {6: "df1c8680bec26fb6"}
"""A digest of the outcome by format version: after a change of the rules raise `FORMAT_VERSION` and add a line."""


def test_a_change_of_the_rules_raises_the_format_version() -> None:
    outcome = [labels_of(KERNELS), [collective_of(name) for name in KERNELS]]
    outcome += [[(api_name(name), host_class(api_name(name))) for name in CALLS], plain_names(RANGES)]
    outcome += [[says_tensor(name) for name in METRICS]]
    assert hashlib.sha256(json.dumps(outcome).encode()).hexdigest()[:16] == RULES[FORMAT_VERSION]
