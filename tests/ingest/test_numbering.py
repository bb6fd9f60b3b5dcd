"""Processes, devices and streams are numbered from the events alone."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_evidence.ingest.numbering import Table, number_streams
from nsys_evidence.ingest.raw import combined
from nsys_evidence.ingest.reader import NONE

quick = settings(max_examples=60, deadline=None)

values = st.integers(0, 3) | st.sampled_from((NONE, -1, 2**32, 2**63 - 1))
StreamKey = tuple[int, int, int, int]
"""GPU, process, context, stream id."""

keys = st.tuples(st.integers(0, 1), st.integers(0, 1), st.sampled_from((1, 2, NONE)), st.sampled_from((0, 7, 2**40)))


@quick
@given(rows=st.lists(st.tuples(values, values, values), max_size=20))
def test_distinct_rows_come_sorted_with_the_number_of_each_row(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array([row[place] for row in rows], np.int64) for place in range(3)]
    distinct, which = combined(columns)
    assert [tuple(row) for row in distinct.T.tolist()] == sorted(set(rows))
    assert [sorted(set(rows))[number] for number in which.tolist()] == rows


@quick
@given(column=st.lists(values, max_size=20))
def test_one_column_is_enough(column: list[int]) -> None:
    distinct, which = combined([np.array(column, np.int64)])
    assert distinct[0][which].tolist() == column


def table_of(keys: list[StreamKey]) -> Table:
    names = ("gpu", "process", "context", "stream")
    kinds = (np.int32, np.int32, np.int64, np.int64)
    return {
        name: np.array([key[place] for key in keys], kind)
        for place, (name, kind) in enumerate(zip(names, kinds, strict=True))
    }


@quick
@given(kernels=st.lists(keys, max_size=10), copies=st.lists(keys, max_size=10))
def test_a_stream_is_one_of_a_process_device_and_context(kernels: list[StreamKey], copies: list[StreamKey]) -> None:
    tables = [table_of(kernels), table_of(copies)]
    streams = number_streams(tables, range(1000, 1100))
    expected = sorted({*kernels, *copies})
    columns = ("gpu", "process", "context", "stream_id")
    assert list(zip(*(streams[name].tolist() for name in columns), strict=True)) == expected
    for table, work in zip(tables, (kernels, copies), strict=True):
        assert [expected[number] for number in table["stream"].tolist()] == work
    for (gpu, process, context, stream), label in zip(expected, streams["label"].tolist(), strict=True):
        shown, in_context = ("none" if number == NONE else str(number) for number in (stream, context))
        twins = [key for key in expected if (key[0], key[3]) == (gpu, stream)]
        triplets = [key for key in twins if key[2] == context]
        alone = shown if len(twins) == 1 else f"{in_context}:{shown}"
        assert label == (alone if len(triplets) == 1 else f"{1000 + process}/{alone}")


def test_labels_tell_streams_of_processes_on_one_gpu_apart_and_never_show_a_sentinel() -> None:
    keys = [(0, 0, 1, 7), (0, 1, 1, 7), (0, 0, 1, NONE), (1, 0, NONE, 7), (1, 0, 1, 7)]
    streams = number_streams([table_of(keys)], [4101, 4102])
    assert streams["label"].tolist() == ["none", "4101/1:7", "4102/1:7", "none:7", "1:7"]


def test_the_label_names_the_context_only_where_the_stream_id_occurs_in_several() -> None:
    streams = number_streams([table_of([(0, 0, 1, 7), (0, 0, 2, 7), (0, 0, 1, 13), (1, 0, 1, 7), (1, 0, 1, 13)])], [42])
    assert streams["label"].tolist() == ["1:7", "13", "2:7", "7", "13"]
