"""Thresholds and pattern tables, as data: a module per category of skills. The generated reference lists them all."""
