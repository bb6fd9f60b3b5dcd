"""Skills: communication."""
