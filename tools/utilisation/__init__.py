"""Skills: utilisation."""
