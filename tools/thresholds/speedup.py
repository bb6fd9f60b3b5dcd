"""What speedup_estimator assumes of a model's memory."""

from __future__ import annotations

from .kinds import Threshold

BYTES_PER_PARAMETER = Threshold(
    name="memory of a parameter in training",
    value=16,
    unit="bytes",
    decides="whether a model fits half as many GPUs: bf16 weight and gradient, fp32 master weight and two Adam moments",
    skills=("speedup_estimator",),
)

MODEL_SHARE = Threshold(
    name="GPU memory for the model",
    value=80,
    unit="%",
    decides="how much of a GPU's memory parameters may take; the rest is for activations",
    skills=("speedup_estimator",),
)
