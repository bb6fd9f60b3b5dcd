"""Skills: kernels."""
