"""Kernel names become short unique labels, and what the name says of collectives, which is a hint and no more."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_evidence.ingest.kernel_names import LABEL_LENGTH, base_name, collective_of, labels_of
from nsys_evidence.ingest.synthetic import Capture, Kernel, demo_capture
from tests.ingest.profiles import build, build_file
from tests.support import CAPTURES

quick = settings(max_examples=50, deadline=None)
STORAGE = "(ncclDevKernelArgsStorage<(unsigned long)4096>)"


@pytest.mark.parametrize(
    ("name", "collective"),
    [
        (f"ncclDevKernel_AllReduce_Sum_bf16_RING_LL{STORAGE}", "AllReduce"),
        (f"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL{STORAGE}", "ReduceScatter"),
        (f"ncclDevKernel_Reduce_Sum_f32_RING_LL{STORAGE}", "Reduce"),
        (f"ncclDevKernel_AllGather_RING_LL{STORAGE}", "AllGather"),
        (f"ncclDevKernel_Broadcast_RING_LL{STORAGE}", "Broadcast"),
        (f"ncclDevKernel_SendRecv{STORAGE}", "SendRecv"),
        (f"ncclDevKernel_Generic_1{STORAGE}", "Generic"),
        ("ncclDevKernel_Generic", "Generic"),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "AllReduce"),
        ("ncclKernel_ReduceScatter_TREE_LL_Sum_half(ncclWorkElem)", "ReduceScatter"),
        ("ncclSymkDevKernel_AllGather_LL(ncclSymkDevWorkArgs)", "AllGather"),
        ("void ncclKernel<AllToAllFunctor>(int)", "Generic"),
        ("ncclKernel_AllToAll_x(int)", "AllToAll"),
        ("nvshmemi_barrier_all_kernel(int)", "Barrier"),
        ("nvshmem_alltoall_kernel(int)", "AllToAll"),
        ("rcclDevKernel_AllReduce(int)", "AllReduce"),
        ("void pack_for_nccl_bucket_kernel<float>(float *)", None),
        ("void unpack_ncclDevKernel(float *)", None),
        ("void my::allreduce_kernel<float>(ncclDevKernel)", None),
        ("void reduce_kernel<ncclKernel_AllReduce>(int)", None),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n", None),
        ("", None),
    ],
)
def test_a_collective_is_known_by_an_anchored_prefix_of_its_own_name(name: str, collective: str | None) -> None:
    assert collective_of(name) == collective


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("void cutlass::Kernel2<cutlass_80_tensorop<128, 64>>(T1::Params)", "Kernel2"),
        (
            "void at::native::<unnamed>::multi_tensor_apply_kernel<Meta<(int)4>, float>(T1, T2...)",
            "multi_tensor_apply_kernel",
        ),
        ("void (anonymous namespace)::softmax<float>(float *)", "softmax"),
        ("gemm", "gemm"),
        ("unsigned long ns::f<F::operator() (int)::[lambda(int) (instance 1)]>(int)", "f"),
        ("f(std::function<void ()> const &)", "f"),
        ("void g<&A::operator->>(int)", "g"),
        ("  spaced(int)  ", "spaced"),
        ("", ""),
    ],
)
def test_the_base_name_has_no_return_type_namespace_template_or_parameter(name: str, base: str) -> None:
    assert base_name(name) == base


def test_labels_tell_elementwise_kernels_and_template_instances_apart() -> None:
    names = [
        "void at::vectorized_elementwise_kernel<(int)4, at::AddFunctor<float>, std::array<char *, 3>>(int)",
        "void at::vectorized_elementwise_kernel<(int)4, at::MulFunctor<float>, std::array<char *, 3>>(int)",
        "void scale<float>(float *)",
        "void scale<double>(double *)",
    ]
    first, second, third, fourth = labels_of(names)
    assert (first, second) == ("vectorized_elementwise_kernel<AddFunctor>", "vectorized_elementwise_kernel<MulFunctor>")
    assert third != fourth
    assert third.startswith("scale~")


words = st.sampled_from(("gemm", "kernel", "tn", "128x64", "bf16", "a" * 70))
names = st.lists(words, min_size=1, max_size=12).map("_".join) | st.text("ab<>():, ~#…_", max_size=12)


@quick
@given(names=st.lists(names, unique=True, max_size=12), random=st.randoms(use_true_random=False))
def test_labels_are_unique_short_and_independent_of_the_order_of_names(names: list[str], random: object) -> None:
    labels = dict(zip(names, labels_of(names), strict=True))
    assert len(set(labels.values())) == len(names)
    assert all(len(label) <= LABEL_LENGTH + 10 for label in labels.values())
    shuffled = names[:]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert dict(zip(shuffled, labels_of(shuffled), strict=True)) == labels


def test_many_names_that_differ_only_in_the_middle_have_labels_of_their_own() -> None:
    names = [f"void {'k' * 60}<(int){n}, float>(int)" for n in range(3_000)]
    assert len(set(labels_of(names))) == 3_000


def test_the_profile_keeps_full_names_beside_labels_and_marks_collectives() -> None:
    names = ["void pack_for_nccl_bucket_kernel<float>(float *)", "ncclDevKernel_Generic_1(int)", "gemm(int)"]
    kernels = [Kernel(100 * n, 100 * n + 50, 0, 1, 7, n, 42, name) for n, name in enumerate(names, 1)]
    built = build(Capture(kernels=kernels))
    assert built.named("kernels", "name", "comm") == [(names[0], False), (names[1], True), (names[2], False)]
    listed = {row["demangled"]: (row["label"], row["collective"]) for row in built.rows("kernel_names")}
    assert listed == {
        names[0]: ("pack_for_nccl_bucket_kernel", None),
        names[1]: ("ncclDevKernel_Generic_1", "Generic"),
        names[2]: ("gemm", None),
    }


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_labels_are_unique_in_real_captures(capture: object) -> None:
    rows = build_file(capture).rows("kernel_names")  # type: ignore[arg-type]
    assert len({row["label"] for row in rows}) == len(rows) == len({row["demangled"] for row in rows})


def test_labels_of_the_demo_stay_as_they_are() -> None:
    # People and answers refer to labels: a change of one is a change of the public surface.
    labels = sorted(row["label"] for row in build(demo_capture()[0]).rows("kernel_names"))
    assert labels == [
        "Kernel2<cutlass…s16816gemm_relu_bf16_128x256_32x3_tn_align8>",
        "flash_fwd_kernel",
        "multi_tensor_apply_kernel<FusedAdamMathFunctor>",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
        "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL",
        "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT",
        "sm80_xmma_gemm_…ma_aligna4_alignc4_execute_kernel__5x_cublas",
        "vectorized_elementwise_kernel~6594",
        "vectorized_elementwise_kernel~99f0",
    ]


def test_ten_thousand_long_names_of_one_family_get_short_unique_labels() -> None:
    names = [f"triton_red_fused__native_layer_norm_backward_some_long_words_{n}_{n * 7}" for n in range(10_000)]
    labels = labels_of(names)
    assert len(set(labels)) == len(names)
    assert max(map(len, labels)) <= LABEL_LENGTH + 5


def test_a_name_of_a_hundred_thousand_characters_is_a_name_like_others() -> None:
    [label] = labels_of([f"void k<{'a' * 100_000}>(int)"])
    assert label == "k"


def test_names_that_differ_only_in_what_nobody_sees_have_labels_that_differ_and_none_is_empty() -> None:
    labels = labels_of(["foo", "foo\u200b", "\u200b", ""])
    assert len(set(labels)) == 4
    assert all(labels)
    assert all("\u200b" not in label for label in labels)
