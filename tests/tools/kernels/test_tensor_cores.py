from __future__ import annotations

import pytest

from nsys_evidence.tools.kernels.tensor_cores import PATTERNS, Usage, tensor_core_column, tensor_core_use


@pytest.mark.parametrize(
    ("name", "usage", "why"),
    [
        ("ampere_sgemm_128x64_tn", Usage.UNUSED, "sgemm"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x64x8_stage3_ffma", Usage.UNUSED, "ffma"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x64x8", Usage.UNUSED, "f32f32_f32f32"),
        ("sm80_xmma_gemm_f32f32_f32f32_tf32_tn_n_tilesize128x64x8", Usage.USED, "mma_"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn>(T1::Params)", Usage.UNUSED, "sgemm"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>(T1::Params)", Usage.USED, "tensorop"),
        ("volta_fp16_s884gemm_fp16_128x64_tn", Usage.UNKNOWN, None),
        ("turing_fp16_s1688gemm_fp16_256x64_tn", Usage.USED, "s1688"),
        ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN", Usage.USED, "nvjet"),
        ("void flash::flash_fwd_kernel<cutlass::bfloat16_t>(flash::Flash_fwd_params)", Usage.USED, "flash"),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80", Usage.USED, "fmha"),
        ("implicit_convolve_sgemm<float, 1024>", Usage.UNUSED, "sgemm"),
        ("triton_tem_fused_addmm_relu_0", Usage.UNKNOWN, None),
    ],
)
def test_the_first_pattern_in_the_name_of_an_eligible_kernel_decides(name: str, usage: Usage, why: str | None) -> None:
    use = tensor_core_use(name)
    assert use is not None
    assert (use.usage, use.why) == (usage, why)


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda>(int)",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096>)",
        "void convert_f16_to_f32(float *, __half *)",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(T3)",
        "softmax_warp_forward<f16>",
    ],
)
def test_kernels_that_are_no_product_convolution_or_attention_are_not_eligible(name: str) -> None:
    assert tensor_core_use(name) is None
    assert tensor_core_column(name) == "not_eligible"


def test_the_column_says_each_verdict_in_one_word() -> None:
    assert tensor_core_column("nvjet_hsh_128x256") == "used"
    assert tensor_core_column("ampere_sgemm_128x64_tn") == "eligible_unused"
    assert tensor_core_column("cublas_gemm_of_some_kind") == "unknown"


def test_every_pattern_is_in_lower_case_as_names_are_when_compared() -> None:
    assert all(pattern.text == pattern.text.lower() for pattern in PATTERNS)
    assert tensor_core_column("AMPERE_SGEMM_128x64") == "eligible_unused"
