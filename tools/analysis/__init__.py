"""Skills: analysis."""
