"""Skills: nvtx."""
