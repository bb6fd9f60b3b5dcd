"""Skills: memory."""
