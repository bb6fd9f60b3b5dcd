"""The forms in which a capture may be handed over, each with what is checked before it is read."""
