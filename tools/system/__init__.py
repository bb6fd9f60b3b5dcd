"""Skills: system."""
