"""The ways through the skills that prompts lead along, as data.

Skills are named here whether a server offers them or not: what it does not offer, its prompts leave out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Step:
    """One call, and what to look at in its result.

    Attributes:
        skill: the skill that is called.
        why: what its result tells. It names no skill.
        cells: columns and `totals.KEY`s to look at; those that the skill does not have are left out.
        given: arguments beyond the profile; values in capitals are for the agent to fill in.
        without: the skill in whose place it stands: where that is offered, this one is not called.
    """

    skill: str
    why: str
    cells: tuple[str, ...] = ()
    given: Mapping[str, object] = field(default_factory=dict)
    without: str | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """Skills that lead on where the first results show something."""

    when: str
    skills: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Guide:
    """A prompt: its question, its calls in order, and where to go from there."""

    title: str
    description: str
    question: str
    steps: tuple[Step, ...]
    branches: tuple[Branch, ...]
    judge: str


_INFO = Step(
    "profile_info",
    "which devices and windows there are, and what was not recorded: that stays unknown, whatever the rest says",
)

_INFO_WITHOUT_MANIFEST = replace(_INFO, without="profile_health_manifest")

GUIDES: dict[str, Guide] = {
    "triage": Guide(
        title="Triage a capture",
        description="Where the time goes, what bounds it, and what to change first.",
        question="Where does the time go, what bounds it, and what should be changed first?",
        steps=(
            Step(
                "profile_health_manifest",
                "what the capture holds and lacks, and what it suspects; what was not recorded stays unknown",
            ),
            _INFO_WITHOUT_MANIFEST,
            Step("top_kernels", "which kernels take the time", ("share_pct", "tensor_core", "totals.busy_ms")),
            Step(
                "gpu_idle_gaps",
                "how much of the time devices do nothing, and what the host was in meanwhile",
                ("host", "host_call", "nvtx", "totals.idle_ms", "totals.idle_pct"),
            ),
            Step(
                "overlap_breakdown",
                "how each device's span divides: compute, exposed communication, copies alone, idle",
                ("compute_ms", "exposed_comm_ms", "copy_only_ms", "idle_ms"),
            ),
        ),
        branches=(
            Branch("idle time is a large share", ("pipeline_bubble_metrics", "cpu_gpu_pipeline", "critical_path")),
            Branch("the host waits in the gaps", ("sync_cost_analysis", "host_sync_parent_ranges")),
            Branch(
                "kernels are many and short",
                ("kernel_launch_overhead", "kernel_launch_pattern", "stream_concurrency"),
            ),
            Branch("communication is exposed", ("nccl_breakdown", "nccl_anomaly", "kernel_overlap_matrix")),
            Branch("copies stand alone", ("memory_transfers", "memory_bandwidth", "h2d_distribution")),
            Branch("one kernel takes most of the time", ("kernel_instances", "tensor_core_usage")),
            Branch("modules load or compile in the steady state", ("module_loading",)),
            Branch("steps differ", ("iteration_timing", "iteration_detail")),
            Branch("the question is which part of the program", ("nvtx_layer_breakdown", "nvtx_kernel_map")),
            Branch("the findings are to be brought together", ("root_cause_matcher", "speedup_estimator")),
        ),
        judge="Rank what you found by its share of the span, largest first, and say of each what would disprove it.",
    ),
    "communication": Guide(
        title="Is communication hidden?",
        description="How much collective communication is exposed, in which collectives, and why.",
        question="How much of the communication is not hidden behind compute, in which collectives, and why?",
        steps=(
            _INFO,
            Step(
                "overlap_breakdown",
                "how much communication each device has, and how much of it is exposed",
                ("comm_ms", "overlap_ms", "exposed_comm_ms"),
            ),
            Step("nccl_breakdown", "which collectives, on which streams", ("collective", "busy_ms", "share_pct")),
            Step("kernel_overlap_matrix", "what runs at the same time as each collective"),
            Step("nccl_anomaly", "single collectives that took far longer than their like"),
        ),
        branches=(
            Branch("sizes or peers matter", ("nccl_payload_breakdown", "nccl_communicator_analysis")),
            Branch("the program is compiled", ("nccl_compile_context_breakdown",)),
            Branch("collectives wait for a late device", ("pipeline_bubble_metrics", "iteration_timing")),
            Branch("compute and communication share a stream", ("stream_concurrency",)),
            Branch("the question is which part of the program", ("nvtx_kernel_map", "nvtx_layer_breakdown")),
        ),
        judge="A collective's time includes waiting for the other ranks: a long one is not by itself a slow network.",
    ),
    "memory": Guide(
        title="Copies and sets",
        description="What is copied, how fast, from which memory, and whether compute waits for it.",
        question="What is copied, in which direction, how fast, and does compute wait for it?",
        steps=(
            _INFO,
            Step("memory_transfers", "copies by direction and by kind of memory; pageable memory is slow"),
            Step("memory_bandwidth", "how near to the link's speed the large copies come"),
            Step("h2d_distribution", "whether host-to-device traffic goes on after the start"),
            Step("overlap_breakdown", "how long only copies ran, with no kernel beside them", ("copy_only_ms",)),
        ),
        branches=(
            Branch("devices wait for copies", ("gpu_idle_gaps", "sync_cost_analysis")),
            Branch("copies should run beside compute", ("kernel_overlap_matrix", "stream_concurrency")),
            Branch("allocations or copy calls take the host's time", ("cuda_api_summary",)),
            Branch("the question is which part of the program", ("host_sync_parent_ranges", "nvtx_summary")),
        ),
        judge="Copies that run beside kernels cost little; say how much is copy-only before calling them a problem.",
    ),
    "idle": Guide(
        title="Why is the GPU idle?",
        description="When devices do nothing, where the host is meanwhile, and which code that is.",
        question="When do the devices do nothing, where is the host meanwhile, and which code is it?",
        steps=(
            _INFO,
            Step("pipeline_bubble_metrics", "the idle share of each device", ("idle_ms", "idle_pct")),
            Step(
                "overlap_breakdown",
                "the idle share of each device",
                ("idle_ms",),
                without="pipeline_bubble_metrics",
            ),
            Step(
                "gpu_idle_gaps",
                "the longest gaps, with what ran before and after and what the host was in",
                ("start_ns", "gap_us", "host", "host_call", "nvtx", "totals.idle_ms", "totals.listed_ms"),
            ),
            Step("cpu_gpu_pipeline", "how far the launching threads run ahead of the device"),
            Step("sync_cost_analysis", "what synchronisation costs the host"),
        ),
        branches=(
            Branch("host is sync", ("host_sync_parent_ranges", "cuda_api_summary")),
            Branch("host is launch", ("kernel_launch_overhead", "kernel_launch_pattern")),
            Branch("host is alloc or module_load", ("module_loading", "cuda_api_summary")),
            Branch("host is copy_call", ("memory_transfers",)),
            Branch("host is no_cuda_call", ("osrt_summary", "thread_utilization", "nvtx_summary")),
            Branch("one gap is to be tied to code", ("code_attribution_candidates", "nvtx_kernel_map")),
        ),
        judge="Where the host was during a gap is not what caused it: say it as what coincides, unless more shows it.",
    ),
    "layers": Guide(
        title="Which parts of the program",
        description="GPU time by NVTX range, and how well the expensive parts use the device.",
        question="Which parts of the program take the GPU's time, and how well do they use it?",
        steps=(
            _INFO,
            Step("nvtx_layer_breakdown", "GPU time by region", ("region", "self_ms", "share_pct", "outlier")),
            Step("nvtx_kernel_map", "which kernels each range launches", ("path", "kernel", "self_ms", "inclusive_ms")),
            Step("nvtx_summary", "which ranges take the host's time"),
            Step("tensor_core_usage", "matrix kernels that do not use tensor cores"),
        ),
        branches=(
            Branch("the share of the peak is asked for", ("theoretical_flops", "region_mfu", "arithmetic_intensity")),
            Branch("one kernel stands out", ("top_kernels", "kernel_instances")),
            Branch("one layer is slower than its like", ("code_attribution_candidates", "iteration_detail")),
        ),
        judge="Inclusive times of nested ranges do not add up: add shares of self time only, with the row (no range).",
    ),
    "variance": Guide(
        title="Why do steps differ?",
        description="How much steps vary, which are slow, and what is different in them.",
        question="How much do the steps vary, which are the slow ones, and what is different in them?",
        steps=(
            _INFO,
            Step(
                "iteration_timing",
                "the steps, what bounds them, and which are slow",
                ("wall_ms", "vs_median_pct", "totals.median_ms", "totals.p95_ms", "totals.slowest"),
            ),
            Step("iteration_detail", "what the slow step gained and lost", given={"iteration": "SLOWEST"}),
            Step(
                "gpu_idle_gaps",
                "the gaps of the slow step; then ask the same of a step near the median",
                ("gap_us", "host", "totals.idle_ms"),
                {"iteration": "SLOWEST"},
            ),
            Step("nccl_anomaly", "collectives that took far longer than their like"),
        ),
        branches=(
            Branch("the same kernels took longer", ("top_kernels", "kernel_instances")),
            Branch("the host was late", ("cpu_gpu_pipeline", "thread_utilization", "osrt_summary")),
            Branch("modules load in some steps", ("module_loading",)),
            Branch("devices differ", ("overlap_breakdown", "pipeline_bubble_metrics")),
            Branch("data arrives late", ("h2d_distribution", "memory_transfers")),
        ),
        judge="Leave out the first steps, which warm up, and say how many there are: of few, a tail means little.",
    ),
}
"""The prompts by name."""
