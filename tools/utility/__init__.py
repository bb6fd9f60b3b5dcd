"""Skills: utility."""
