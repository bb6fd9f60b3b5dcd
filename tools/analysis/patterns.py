"""The patterns that root_cause_matcher knows: what each is, what to try, and what would show that it is wrong."""

from __future__ import annotations

from dataclasses import dataclass

from ..thresholds.analysis import HOTSPOT, IMBALANCE, LOW, PAGEABLE, SHARED_STREAM, SHORT_GAP

ABOUT_CAPTURE = "of the capture window"
"""What the share of a pattern is of that is about the capture and not about the window."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A known pattern.

    Attributes:
        name: as it stands in results.
        says: what it says, in a sentence; what its share is of the window.
        attempt: what to try.
        disproof: what would show that it is not the cause.
        skills: the skills that it is judged by; without them it is not checked.
        threshold: what makes it a finding, besides its share of the window.
    """

    name: str
    says: str
    attempt: str
    disproof: str
    skills: tuple[str, ...]
    threshold: str | None = None

    @property
    def thresholds(self) -> str:
        """All that makes it a finding, in words."""
        least = f"{LOW.value} % of the window"
        if self.threshold == ABOUT_CAPTURE:
            return f"{LOW.value} % {ABOUT_CAPTURE}"
        return f"{self.threshold}, and {least}" if self.threshold else least


PATTERNS = (
    Pattern(
        "idle_device",
        "the device waits while its launching threads are in no CUDA call: work outside CUDA, or another thread's",
        "find the host code in these gaps (gpu_idle_gaps, thread_utilization, osrt_summary); prefetch, or overlap it",
        "the gaps lie at the window's edges, or in start-up: ask again with trim or iteration",
        ("pipeline_bubble_metrics",),
    ),
    Pattern(
        "launch_bound",
        f"the device waits for launches: gaps under {SHORT_GAP.value // 1000} µs, and longer ones in launch calls",
        "fuse small kernels, torch.compile, or CUDA graphs; see kernel_launch_overhead and cpu_gpu_pipeline",
        "queue times are long (cpu_gpu_pipeline): launches then come early enough",
        ("pipeline_bubble_metrics", "kernel_launch_overhead"),
    ),
    Pattern(
        "host_sync",
        "the device waits while the host is in a synchronisation call",
        "drop .item(), .cpu() and explicit synchronisation inside the step; see host_sync_parent_ranges",
        "the call only waits for the last work of a step, and the next launches were ready",
        ("pipeline_bubble_metrics", "sync_cost_analysis"),
    ),
    Pattern(
        "exposed_comm",
        "collectives run while the device computes nothing; their time includes waiting for peers",
        "overlap with compute: bucket sizes, prefetch, a stream of its own; see nccl_breakdown",
        "peers are late (rank_imbalance): then waiting, not the transfer, takes the time",
        ("overlap_breakdown",),
    ),
    Pattern(
        "serialised_comm",
        "exposed collectives on streams that they share with compute, so that the two cannot overlap",
        "put collectives on a stream of their own",
        "each collective needs the result of the compute just before it",
        ("overlap_breakdown",),
        f"compute has {SHARED_STREAM.value} % of the stream's kernel time",
    ),
    Pattern(
        "exposed_copies",
        "copies or sets run while no kernel does",
        "overlap them with compute on another stream, prefetch, or avoid them; see memory_transfers",
        "the kernels that follow need exactly these bytes, and they cannot come earlier",
        ("overlap_breakdown",),
    ),
    Pattern(
        "kernel_hotspot",
        "one kernel, no collective, takes much of kernel time; its share is the time in which it runs",
        "look at its launches (kernel_instances) and profile it with Nsight Compute",
        "it already runs near the device's peak (arithmetic_intensity, region_mfu)",
        ("top_kernels",),
        f"{HOTSPOT.value} % of kernel time",
    ),
    Pattern(
        "synchronous_copies",
        "the device waits while the host is in a copy call, as copies of pageable memory make it",
        "pinned memory and non_blocking copies on a stream of their own; see memory_bandwidth",
        "the copies are of pinned memory, and the wait is for work before them",
        ("pipeline_bubble_metrics", "memory_bandwidth"),
        f"{PAGEABLE.value} % of bytes from or to pageable memory, or the kind of memory not known",
    ),
    Pattern(
        "steady_h2d",
        "host-to-device copies while no kernel runs, all through the window and not only at its start",
        "keep data on the device, prefetch the next batch; see h2d_distribution",
        "the kernels that follow need exactly these bytes; part of exposed_copies",
        ("h2d_distribution",),
        "a pattern of spread_out or spike",
    ),
    Pattern(
        "steady_module_loading",
        "modules are loaded, linked or compiled after the first step, and the device waits",
        "warm up every shape first; CUDA_MODULE_LOADING=EAGER; cache compiled code",
        "the calls belong to a step that runs once, such as an evaluation",
        ("pipeline_bubble_metrics", "module_loading"),
        "gaps that begin after the first step",
    ),
    Pattern(
        "steady_allocation",
        "device memory is allocated or freed after the first step, and the device waits",
        "a caching or pool allocator, expandable segments, no empty_cache() inside the step; see gc_impact",
        "the calls are pool forms (…Async), which do not stop the device",
        ("pipeline_bubble_metrics", "gc_impact"),
        "gaps that begin after the first step",
    ),
    Pattern(
        "tensor_cores_unused",
        "matrix products, convolutions or attention whose kernels' names tell no use of tensor cores",
        "bf16, fp16 or TF32 (torch.set_float32_matmul_precision), sizes in multiples of 8 or 16",
        "the names mislead: Nsight Compute, or sampled tensor activity, tells",
        ("tensor_core_usage",),
    ),
    Pattern(
        "rank_imbalance",
        "devices spend unlike time in collectives: those with more may wait for the others; part of exposed_comm",
        "compare the work of the ranks (iteration_timing, cpu_gpu_pipeline per device)",
        "the devices belong to different groups, or run different parts of the model",
        ("overlap_breakdown",),
        f"{IMBALANCE.value} % between the most and the least",
    ),
    Pattern(
        "profiler_overhead",
        "nsys itself worked for a part of the whole capture: about the capture, never the workload or this window",
        "trim the start away, trace less, or record for longer",
        "the overhead lies outside the window in question",
        ("doctor",),
        ABOUT_CAPTURE,
    ),
)
"""In the order in which they are checked; of equal findings the earlier comes first."""
