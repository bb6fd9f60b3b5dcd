"""Skills: bottlenecks."""
