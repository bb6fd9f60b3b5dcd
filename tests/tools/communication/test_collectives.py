from __future__ import annotations

import pytest

from nsys_evidence.tools.communication.collectives import variant_of
from tests.tools.communication.collective_captures import NAMES, STORAGE


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        *((name, variant or "") for name, (_, variant) in NAMES.items()),
        (f"ncclDevKernel_Reduce_MinMax_u8_TREE_SIMPLE{STORAGE}", "MinMax_u8"),
        (f"ncclDevKernel_AllReduce_SumPostDiv_i64_RING_LL128{STORAGE}", "SumPostDiv_i64"),
        (f"ncclDevKernel_AllReduce_PreMulSum_f8e4m3_RING_LL{STORAGE}", "PreMulSum_f8e4m3"),
        ("ncclKernel_AllReduce_RING_LL_Sum_half(ncclDevComm *, unsigned long, ncclWork *)", "Sum_half"),
        ("ncclKernel_AllReduce_TREE_LL128_Sum___nv_bfloat16(ncclWorkElem)", "Sum___nv_bfloat16"),
        ("ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclWorkElem)", "Sum_int8_t"),
        ("ncclSymDevKernel_AllReduce_RSxLD_AGxST_sum_bf16(ncclSymDevArgs)", "sum_bf16"),
        ("ncclSymkDevKernel_AllReduce_AGxLL_R_sum_f8e5m2(ncclSymkDevWorkArgs4K)", "sum_f8e5m2"),
        ("ncclSymkDevKernel_AllGather_STMC(ncclSymkDevWorkArgs4K)", ""),
        (f"ncclDevKernel_AllGather_RING_LL{STORAGE}", ""),
        (f"ncclDevKernel_Generic_1{STORAGE}", ""),
        ("void ncclKernel<AllReduce_Sum_bf16>(int)", ""),
        ("ncclDevKernel_AllReduce_Summary_bf16(int)", ""),
        ("", ""),
    ],
)
def test_the_variant_is_reduction_and_datatype_as_named_without_protocol_and_algorithm(name: str, variant: str) -> None:
    assert variant_of(name) == variant
