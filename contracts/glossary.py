"""Words for time that mean the same in every skill; shown in the reference."""

WORDS_FOR_TIME = {
    "total": "the sum of durations, clipped to the window; may exceed the span when work overlaps",
    "busy": "the length of the union of intervals; never exceeds the span",
    "span": "the length of the window in scope",
    "idle": "span less busy, where busy is the union over kernels, copies and sets on the device",
    "compute": "kernels that are not collective communication by their name",
    "comm": "kernels that are collective communication by their name (NCCL, NVSHMEM, RCCL)",
    "overlap": "the length of compute busy ∩ comm busy",
    "exposed comm": "comm busy less overlap",
    "copy-only": "span where only copies or sets ran; compute + exposed comm + copy-only + idle = span",
    "queue": "GPU start less API end, where positive, as nsys stats cuda_kern_exec_sum defines it",
}
