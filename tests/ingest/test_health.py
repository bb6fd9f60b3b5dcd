"""Which messages of nsys say that events are missing: each count in a message is judged for itself."""

from __future__ import annotations

import pytest

from nsys_evidence.ingest.health import tells_of_missing_events


@pytest.mark.parametrize(
    "message",
    [
        "Not all CUDA events might have been collected.",
        "Not all CUDA events\nmight have been collected.",
        "12 events were DROPPED",
        "12 events dropped, 0 lost",
        "0 dropped, 7 lost",
        "10 events lost",
        "1,000 events dropped",
        "Number of CUDA events lost: 07",
        "Lost 3 events",
        "Buffer overflow: 0 dropped",
        "the capture is incomplete",
    ],
)
def test_a_message_of_missing_events_is_one(message: str) -> None:
    assert tells_of_missing_events(message)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "Process was launched",
        "0 events dropped, 0 lost",
        "Event requests: 0 dropped",
        "Number of CUDA events lost: 0",
        "Lost 0 events",
        "No events were dropped",
        "no CUDA events have been lost.",
        "the frost layer is closed",
    ],
)
def test_a_message_that_counts_none_is_none(message: str) -> None:
    assert not tells_of_missing_events(message)
