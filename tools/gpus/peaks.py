"""Peak rates of GPUs, from NVIDIA's datasheets and architecture whitepapers.

Every rate is dense, without structured sparsity, at the boost clock of the document. Rates are in GFLOP/s (GOP/s for
int8), which is FLOP per ns; bandwidths in GB/s of 10^9 bytes, which is bytes per ns. None is what the document does not
give, or what the GPU does not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Precision = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8"]
"""The precisions that peaks are given for."""

PRECISIONS: tuple[Precision, ...] = get_args(Precision)

GB = 10**9


@dataclass(frozen=True, slots=True)
class GpuPeaks:
    """One product.

    Attributes:
        product: what it is called here.
        names: regular expressions, one of which the whole device name matches, without a leading "NVIDIA " or "Tesla ".
        chip: chip name, as captures give it; None where it is not known.
        memory_gb: memory of the product, in GB of 10^9 bytes, as it is sold.
        gb_per_s: memory bandwidth.
        reference: short name of the document, one of `DOCUMENTS`; in parentheses which part of it.
        fp64: double precision; of tensor cores in `tensor`.
        fp32: single precision; on no GPU of tensor cores.
        tf32: TF32 inputs, single-precision results.
        fp16: half precision, accumulated in fp32.
        bf16: bfloat16, accumulated in fp32.
        fp8: 8-bit floating point, accumulated in fp32.
        int8: 8-bit integers.
        halved: precisions whose dense rate is half of the rate with sparsity that the document gives.
        tensor: precisions whose rate is that of the tensor cores.
    """

    product: str
    names: tuple[str, ...]
    chip: str | None
    memory_gb: int
    gb_per_s: int
    reference: str
    fp64: int | None = None
    fp32: int | None = None
    tf32: int | None = None
    fp16: int | None = None
    bf16: int | None = None
    fp8: int | None = None
    int8: int | None = None
    halved: tuple[Precision, ...] = ()
    tensor: tuple[Precision, ...] = ("tf32", "fp16", "bf16", "fp8", "int8")

    def peak(self, precision: Precision) -> int | None:
        """The dense peak in GFLOP/s; None where there is none."""
        rate: int | None = getattr(self, precision)
        return rate

    def source(self, precision: Precision) -> str:
        """Where the peak comes from, in words."""
        units = "tensor" if precision in self.tensor else "CUDA cores"
        halved = ", half of the rate with sparsity" if precision in self.halved else ""
        return f"{self.reference}, {precision} dense {units}{halved}"


_ALL_TENSOR: tuple[Precision, ...] = PRECISIONS[:1] + PRECISIONS[2:]
"""GPUs whose tensor cores do double precision too; fp32 is always that of the CUDA cores."""

_SPARSE: tuple[Precision, ...] = ("tf32", "fp16", "bf16", "fp8", "int8")
"""What recent datasheets give with sparsity only."""

_V100 = "Tesla V100 datasheet"
_A100 = "A100 datasheet"
_GA102 = "GA102 architecture whitepaper"
_H100 = "H100 architecture whitepaper"
_BLACKWELL = "Blackwell datasheet"

DOCUMENTS = {
    _V100: "NVIDIA V100 Tensor Core GPU, datasheet 1165301 r5: specifications",
    "T4 datasheet": "NVIDIA T4 Tensor Core GPU, datasheet 951643: specifications; bandwidth of 256 bits at 10 Gbit/s",
    _A100: "NVIDIA A100 Tensor Core GPU, datasheet 1758950 r4: specifications, 40 and 80 GB, PCIe and SXM",
    "A10 datasheet": "NVIDIA A10 Tensor Core GPU, datasheet: specifications",
    _GA102: "NVIDIA Ampere GA102 GPU Architecture, whitepaper V2.0: Appendices A (RTX 3090) and C (RTX A6000)",
    "Ada GPU architecture whitepaper": "NVIDIA Ada GPU Architecture, whitepaper: specifications of GeForce RTX 4090",
    "L4 datasheet": "NVIDIA L4 Tensor Core GPU, datasheet: specifications",
    "L40 datasheet": "NVIDIA L40 GPU, datasheet: specifications",
    "L40S datasheet": "NVIDIA L40S GPU, datasheet: specifications",
    _H100: "NVIDIA H100 Tensor Core GPU Architecture, whitepaper: performance specs of H100 SXM5 and PCIe, in "
    "revisions that call them final; memory bandwidths are of the H100 datasheet",
    "H100 NVL datasheet": "NVIDIA H100 Tensor Core GPU, datasheet: product specifications, column H100 NVL",
    "H200 datasheet": "NVIDIA H200 Tensor Core GPU, datasheet 3002446: specifications, H200 SXM",
    "GH200 datasheet": "NVIDIA GH200 Grace Hopper Superchip, datasheet: specifications, HBM3 and HBM3e",
    _BLACKWELL: "NVIDIA Blackwell, datasheet 3384703: system and individual specifications of GB200 NVL72 and HGX B200",
}
"""The documents by the names that references begin with: title, number and revision where it has one, and the part.

Where no number or revision stands here, it is not known; the values are those of the document of that title.
"""


GPUS = (
    # Volta. int8 runs on CUDA cores (DP4A); the datasheet gives no rate.
    *(
        GpuPeaks(
            f"V100 PCIe {size} GB",
            (rf"V100-PCIE-{size}GB",),
            "GV100",
            size,
            900,
            _V100,
            fp64=7_000,
            fp32=14_000,
            fp16=112_000,
        )
        for size in (16, 32)
    ),
    *(
        GpuPeaks(
            f"V100 SXM2 {size} GB",
            (rf"V100-SXM2-{size}GB",),
            "GV100",
            size,
            900,
            _V100,
            fp64=7_800,
            fp32=15_700,
            fp16=125_000,
        )
        for size in (16, 32)
    ),
    # Turing.
    GpuPeaks("T4", ("T4",), "TU104", 16, 320, "T4 datasheet", fp32=8_100, fp16=65_000, int8=130_000),
    # Ampere. These documents give dense rates and, apart, rates with sparsity.
    *(
        GpuPeaks(
            f"A100 {form} {size} GB",
            names,
            "GA100",
            size,
            bandwidth,
            _A100,
            fp64=19_500,
            fp32=19_500,
            tf32=156_000,
            fp16=312_000,
            bf16=312_000,
            int8=624_000,
            tensor=_ALL_TENSOR,
        )
        for form, size, bandwidth, names in (
            ("PCIe", 40, 1_555, ("A100-PCIE-40GB",)),
            ("SXM", 40, 1_555, ("A100-SXM4-40GB",)),
            ("PCIe", 80, 1_935, ("A100 80GB PCIe", "A100-PCIE-80GB")),
            ("SXM", 80, 2_039, ("A100-SXM4-80GB",)),
        )
    ),
    GpuPeaks(
        "A10",
        ("A10",),
        "GA102",
        24,
        600,
        "A10 datasheet",
        fp32=31_200,
        tf32=62_500,
        fp16=125_000,
        bf16=125_000,
        int8=250_000,
    ),
    GpuPeaks(
        "RTX A6000",
        ("RTX A6000",),
        "GA102",
        48,
        768,
        _GA102,
        fp32=38_700,
        tf32=77_400,
        fp16=154_800,
        bf16=154_800,
        int8=309_700,
    ),
    # GeForce accumulates in fp32 at half the rate of fp16: with fp16 accumulation the RTX 3090 does 142, the RTX 4090
    # 330.3 TFLOPS (fp8: 660.6). Frameworks accumulate in fp32.
    GpuPeaks(
        "GeForce RTX 3090",
        ("GeForce RTX 3090",),
        "GA102",
        24,
        936,
        _GA102,
        fp32=35_600,
        tf32=35_600,
        fp16=71_000,
        bf16=71_000,
        int8=284_000,
    ),
    # Ada.
    GpuPeaks(
        "GeForce RTX 4090",
        ("GeForce RTX 4090",),
        "AD102",
        24,
        1_008,
        "Ada GPU architecture whitepaper",
        fp32=82_600,
        tf32=82_600,
        fp16=165_200,
        bf16=165_200,
        fp8=330_300,
        int8=660_600,
    ),
    # 120, 242, 242, 485 and 485 with sparsity.
    GpuPeaks(
        "L4",
        ("L4",),
        "AD104",
        24,
        300,
        "L4 datasheet",
        fp32=30_300,
        tf32=60_000,
        fp16=121_000,
        bf16=121_000,
        fp8=242_500,
        int8=242_500,
        halved=_SPARSE,
    ),
    GpuPeaks(
        "L40",
        ("L40",),
        "AD102",
        48,
        864,
        "L40 datasheet",
        fp32=90_500,
        tf32=90_500,
        fp16=181_050,
        bf16=181_050,
        fp8=362_000,
        int8=362_000,
    ),
    GpuPeaks(
        "L40S",
        ("L40S",),
        "AD102",
        48,
        864,
        "L40S datasheet",
        fp32=91_600,
        tf32=183_000,
        fp16=362_050,
        bf16=362_050,
        fp8=733_000,
        int8=733_000,
    ),
    # Hopper. The whitepaper gives dense rates; datasheets of H100 NVL and H200 give rates with sparsity only:
    # 835, 1671, 1671, 3341, 3341 and 989, 1979, 1979, 3958, 3958.
    GpuPeaks(
        "H100 PCIe",
        ("H100 PCIe", "H100"),
        "GH100",
        80,
        2_000,
        _H100,
        fp64=51_200,
        fp32=51_200,
        tf32=378_000,
        fp16=756_000,
        bf16=756_000,
        fp8=1_513_000,
        int8=1_513_000,
        tensor=_ALL_TENSOR,
    ),
    GpuPeaks(
        "H100 SXM",
        ("H100 80GB HBM3", "H100 SXM5", "H100"),
        "GH100",
        80,
        3_350,
        _H100,
        fp64=66_900,
        fp32=66_900,
        tf32=494_700,
        fp16=989_400,
        bf16=989_400,
        fp8=1_978_900,
        int8=1_978_900,
        tensor=_ALL_TENSOR,
    ),
    GpuPeaks(
        "H100 NVL",
        ("H100 NVL", "H100"),
        "GH100",
        94,
        3_900,
        "H100 NVL datasheet",
        fp64=60_000,
        fp32=60_000,
        tf32=417_500,
        fp16=835_500,
        bf16=835_500,
        fp8=1_670_500,
        int8=1_670_500,
        halved=_SPARSE,
        tensor=_ALL_TENSOR,
    ),
    GpuPeaks(
        "H200 SXM",
        ("H200",),
        "GH100",
        141,
        4_800,
        "H200 datasheet",
        fp64=67_000,
        fp32=67_000,
        tf32=494_500,
        fp16=989_500,
        bf16=989_500,
        fp8=1_979_000,
        int8=1_979_000,
        halved=_SPARSE,
        tensor=_ALL_TENSOR,
    ),
    *(
        GpuPeaks(
            f"GH200 {size} GB",
            names,
            "GH100",
            size,
            bandwidth,
            "GH200 datasheet",
            fp64=67_000,
            fp32=67_000,
            tf32=494_000,
            fp16=990_000,
            bf16=990_000,
            fp8=1_979_000,
            int8=1_979_000,
            tensor=_ALL_TENSOR,
        )
        for size, bandwidth, names in (
            (96, 4_000, ("GH200 480GB", "GH200 120GB")),
            (144, 4_900, ("GH200 144G HBM3e",)),
        )
    ),
    # Blackwell, per GPU: 2200, 4500, 4500, 9000, 9000 and 2500, 5000, 5000, 10000, 10000 with sparsity. The chip's name
    # in captures is not known.
    GpuPeaks(
        "B200",
        ("B200",),
        None,
        180,
        7_700,
        f"{_BLACKWELL} (HGX B200)",
        fp64=37_000,
        fp32=75_000,
        tf32=1_100_000,
        fp16=2_250_000,
        bf16=2_250_000,
        fp8=4_500_000,
        int8=4_500_000,
        halved=_SPARSE,
        tensor=_ALL_TENSOR,
    ),
    GpuPeaks(
        "GB200",
        ("GB200",),
        None,
        186,
        8_000,
        f"{_BLACKWELL} (GB200 NVL72)",
        fp64=40_000,
        fp32=80_000,
        tf32=1_250_000,
        fp16=2_500_000,
        bf16=2_500_000,
        fp8=5_000_000,
        int8=5_000_000,
        halved=_SPARSE,
        tensor=_ALL_TENSOR,
    ),
)
