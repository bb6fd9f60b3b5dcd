"""Faults that users of such analysers met, each with the tests that would have caught it here.

Numbers are those of our collection of public reports; N-numbers are reports about exports and other analysers. A fault
that cannot occur here has a line that says why, beside a test that holds the reason where there is one.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: what went wrong for somebody, and what would tell.

    Attributes:
        what: the fault in one sentence.
        tests: `path::function` of tests that fail when it comes back, below the directory of tests.
        impossible: why it cannot occur here, where no test can show it.
    """

    what: str
    tests: tuple[str, ...] = ()
    impossible: str | None = None


NAMES = "pitfalls/test_schema_and_names.py"
IDENTITY = "pitfalls/test_identity.py"
WINDOWS = "pitfalls/test_windows.py"
ARITHMETIC = "pitfalls/test_arithmetic.py"
NVTX = "pitfalls/test_nvtx.py"
COMM = "pitfalls/test_communication_memory_and_peaks.py"
CANNOT = "pitfalls/test_cannot_answer.py"
SAME = "pitfalls/test_determinism.py"
FILES = "pitfalls/test_files_and_cache.py"
PROMISES = "test_promises.py"
EVENTS = "ingest/test_events.py"
READERS = "ingest/test_readers.py"
LAYOUTS = "ingest/test_layouts.py"
DEVICES = "ingest/test_devices.py"
BAD_INPUT = "ingest/test_bad_input.py"
CACHE = "ingest/test_cache.py"
RUN = "tools/test_run.py"
CAUSES = "tools/analysis/test_root_cause_matcher.py"
ITERATIONS = "tools/measures/test_iterations.py"
GAPS = "tools/kernels/test_gpu_idle_gaps.py"
BUBBLES = "tools/utilisation/test_pipeline_bubble_metrics.py"
OVERHEAD = "tools/kernels/test_kernel_launch_overhead.py"
TRANSFERS = "tools/memory/test_memory_transfers.py"
SYNCS = "tools/system/test_sync_cost_analysis.py"
OVERLAP = "tools/communication/test_overlap_breakdown.py"
KERNEL_MAP = "tools/nvtx/test_nvtx_kernel_map.py"
LAYERS = "tools/nvtx/test_nvtx_layer_breakdown.py"
H2D = "tools/memory/test_h2d_distribution.py"
INTENSITY = "tools/kernels/test_arithmetic_intensity.py"
MFU = "tools/kernels/test_region_mfu.py"


def at(module: str, *names: str) -> tuple[str, ...]:
    """Tests of one module."""
    return tuple(f"{module}::test_{name}" for name in names)


SCHEMA_AND_NAMES = {
    "1": Fault(
        "A table with a version behind its name is overlooked, so that an annotated capture seems to have no ranges.",
        at(NAMES, "renamed_tables_change_no_byte_of_any_result", "no_skill_names_a_table_of_the_export")
        + at(LAYOUTS, "the_layout_of_an_export_leaves_no_trace"),
    ),
    "2": Fault(
        "Of two versions of a table the older one is read, or versions are compared as text.",
        at(READERS, "a_table_is_found_by_its_exact_name_or_its_highest_version")
        + at(EVENTS, "of_several_versions_of_a_table_the_exact_name_or_the_highest_number_is_read"),
    ),
    "3": Fault(
        "The table of peer copies is taken for a version of the table of copies.",
        at(READERS, "peer_copies_are_another_table_than_copies")
        + at(EVENTS, "a_table_of_peer_copies_or_of_labels_is_not_taken_for_events")
        + at(SAME, "no_result_depends_on_the_seed_of_hashes_the_time_zone_or_the_process"),
    ),
    "4": Fault(
        "A table of labels is taken for the kernel table since it has KERNEL in its name.",
        at(NAMES, "a_kernel_table_under_a_wrong_name_is_not_guessed")
        + at(EVENTS, "a_table_of_peer_copies_or_of_labels_is_not_taken_for_events"),
    ),
    "5": Fault(
        "Ranges whose text is stored by reference vanish, or those whose text is stored inline.",
        at(EVENTS, "text_may_be_inline_by_reference_or_missing_row_by_row")
        + at(EVENTS, "an_export_that_lacks_one_of_the_two_text_columns_is_read")
        + at("tools/nvtx/test_nvtx_summary.py", "a_name_is_the_same_whether_it_is_registered_or_not"),
    ),
    "7": Fault(
        "An answer about synchronisation is refused since the labels of its codes are not in the export.",
        at(NAMES, "labels_that_an_export_lacks_change_no_figure")
        + at(SYNCS, "codes_alone_tell_types_and_the_answer_says_that_they_did"),
    ),
    "8": Fault(
        "The version of the schema is not found in any real export, or that of the product is given for it.",
        at(NAMES, "versions_are_read_from_the_metadata_of_the_export")
        + at(BAD_INPUT, "an_export_schema_of_another_major_version_is_refused")
        + at("ingest/test_real_captures.py", "a_capture_holds_what_is_known_of_it"),
    ),
    "9": Fault(
        "A missing column shows late, as a crash of a query.",
        at(NAMES, "every_skill_has_an_answer_without_all_columns_that_an_event_can_be_without")
        + at(BAD_INPUT, "a_table_that_lacks_what_makes_an_interval_counts_as_not_recorded_and_that_is_said"),
    ),
    "10": Fault(
        "A column that only some exports have takes every skill down where it is missing.",
        at(NAMES, "a_column_that_only_newer_exports_have_makes_no_skill_fail")
        + at(EVENTS, "missing_optional_columns_become_null_and_nothing_else"),
    ),
    "11": Fault(
        "Times stored as text are sorted as text.",
        at(NAMES, "starts_stored_as_text_stand_in_the_order_of_time")
        + at(LAYOUTS, "the_layout_of_an_export_leaves_no_trace"),
    ),
    "12": Fault(
        "An error describes the capture although another store than the capture had been opened.",
        at(NAMES, "what_is_said_of_a_missing_table_names_the_capture_that_was_read")
        + at(FILES, "an_error_names_the_file_that_was_looked_at"),
    ),
}

IDENTITIES = {
    "13": Fault(
        "Streams of several devices or contexts with the same number are taken for one.",
        at(IDENTITY, "processes_that_share_all_ids_but_their_own_change_no_figure_of_a_device")
        + at(IDENTITY, "green_contexts_and_contexts_are_streams_of_their_own_and_utilisation_is_that_of_the_gpu")
        + at("ingest/test_numbering.py", "a_stream_is_one_of_a_process_device_and_context"),
    ),
    "17": Fault(
        "Device 0 is looked at unasked, although all work is on others.",
        at(IDENTITY, "without_a_device_every_skill_looks_at_all_devices_and_names_them")
        + at(IDENTITY, "where_rows_are_of_devices_there_are_rows_of_every_device_with_that_work")
        + at(RUN, "work_that_names_no_device_is_not_taken_for_device_0"),
    ),
    "18": Fault(
        "A device that the capture lacks is reported as idle, or as well used.",
        at(IDENTITY, "a_device_that_the_capture_lacks_is_refused_by_every_skill_and_those_that_it_has_are_named")
        + at(IDENTITY, "a_device_is_refused_before_anything_else_where_there_is_no_gpu_work_at_all"),
    ),
    "19": Fault(
        "The device has another name in another skill, and unknown names are ignored.",
        at(IDENTITY, "a_device_under_another_name_is_an_unknown_argument_of_every_skill")
        + at("server/test_catalogue.py", "inputs_are_flat_and_refuse_what_they_do_not_know"),
    ),
    "20": Fault(
        "Process and thread numbers without the machine that they are of are used as keys, and collide.",
        at(DEVICES, "processes_of_two_machines_may_have_the_same_id")
        + at(IDENTITY, "processes_that_share_all_ids_but_their_own_change_no_figure_of_a_device"),
    ),
    "21": Fault(
        "The occurrences of a range are counted over ranks instead of over time.",
        at(MFU, "occurrences_are_counted_inside_one_process_and_a_device_chooses_it")
        + at(ITERATIONS, "of_two_ranks_with_one_marker_the_one_with_most_gpu_time_is_taken_and_the_other_is_said"),
    ),
    "22": Fault(
        "Whether a run is distributed is read off one optional table.",
        at(
            "tools/communication/test_nccl_communicator_analysis.py",
            "every_figure_is_that_of_the_slow_and_obvious_method",
        )
        + at(NAMES, "every_skill_has_an_answer_without_all_that_is_no_kernel_copy_call_or_range"),
        "no result says whether a run is distributed: processes, devices and ranks are counted where they are recorded",
    ),
    "23": Fault(
        "The last event of any device ends the window of one that was asked about.",
        at(IDENTITY, "the_work_of_one_device_ends_where_it_ends_and_not_where_that_of_another_does")
        + at(BUBBLES, "one_device_is_measured_against_the_window_of_all"),
    ),
    "24": Fault(
        "Partitions of a GPU are not told apart, or the use of one is shown as that of the GPU.",
        at(IDENTITY, "green_contexts_and_contexts_are_streams_of_their_own_and_utilisation_is_that_of_the_gpu")
        + at(RUN, "results_about_busy_and_idle_time_say_what_they_are_of"),
    ),
}

TIME_WINDOWS = {
    "25": Fault(
        "A window outside the capture is reported as a well used GPU.",
        at(WINDOWS, "a_window_that_cannot_be_is_refused_by_every_skill"),
    ),
    "28": Fault(
        "An inverted window finds nothing and succeeds, and half a window selects everything.",
        at(WINDOWS, "a_window_that_cannot_be_is_refused_by_every_skill")
        + at(WINDOWS, "half_a_window_under_another_name_is_refused_by_every_skill"),
    ),
    "29": Fault(
        "Parts of an answer ignore the window and show the whole capture.",
        at(
            WINDOWS,
            "a_window_in_which_nothing_happens_shows_idle_time_and_nothing_of_the_rest_of_the_capture",
            "another_window_gives_another_result",
        )
        + at(SYNCS, "what_waits_outside_the_window_is_no_cost_in_it"),
    ),
    "30": Fault(
        "A numerator over the whole capture stands over a denominator of a window.",
        at(ARITHMETIC, "no_share_of_a_quarter_of_a_busy_capture_leaves_0_to_100")
        + at(PROMISES, "times_of_a_partition_of_the_window_add_up_to_the_whole"),
    ),
    "31": Fault("A part of the capture is looked at unasked and unsaid.", at(WINDOWS, "no_skill_trims_unasked")),
    "32": Fault(
        "A window that reaches beyond the capture makes the observed time longer.",
        at(WINDOWS, "a_window_beyond_the_end_counts_only_what_it_shares_with_the_capture")
        + at("contracts/test_scope.py", "a_window_that_reaches_out_of_the_capture_is_clipped_and_that_is_said"),
    ),
    "33": Fault(
        "No window becomes a window of no length, which selects nothing.",
        at(WINDOWS, "a_window_that_is_null_is_the_default_one_and_selects_the_same"),
    ),
    "34": Fault(
        "Seconds are taken for nanoseconds, or the clock for one that starts at zero.",
        at(WINDOWS, "a_window_that_cannot_be_is_refused_by_every_skill")
        + at("contracts/test_scope.py", "a_nanosecond_survives_the_way_through_json_seconds")
        + at("ingest/test_synthetic.py", "the_demo_is_as_large_and_as_far_from_zero_as_planned"),
    ),
    "35": Fault(
        "What lies on the edge of two windows counts in both or in neither.",
        at(
            "contracts/test_window.py",
            "every_event_is_in_a_part_and_one_of_no_length_in_exactly_one",
            "clipped_times_over_any_partition_add_up_to_the_whole",
        )
        + at(PROMISES, "times_of_a_partition_of_the_window_add_up_to_the_whole"),
    ),
}

INTERVALS = {
    "36": Fault(
        "Utilisation is a sum of durations and exceeds the whole.",
        at(ARITHMETIC, "two_streams_at_work_at_once_never_make_more_than_the_span")
        + at(PROMISES, "no_share_leaves_0_to_100_percent")
        + at("contracts/test_units.py", "a_share_outside_zero_to_hundred_percent_is_refused_however_near"),
    ),
    "37": Fault(
        "Gaps of streams are added up as idle time of the device.",
        at(ARITHMETIC, "gaps_of_streams_on_a_device_that_never_idles_are_no_idle_time")
        + at(GAPS, "the_gaps_of_every_stream_are_where_it_has_no_work_and_are_not_added_up")
        + at(PROMISES, "idle_time_is_the_same_whichever_skill_is_asked"),
    ),
    "39": Fault(
        "Time in which only a copy runs is idle time and blamed on the host.",
        at(ARITHMETIC, "time_in_which_only_a_copy_runs_is_copy_only_and_idle_in_no_skill")
        + at("tools/system/test_critical_path.py", "a_copy_is_no_waiting_for_the_host"),
    ),
    "42": Fault(
        "The waiting of threads at the same time is added up over one window.",
        at(ARITHMETIC, "threads_that_wait_at_once_wait_no_longer_than_the_window")
        + at(SYNCS, "threads_that_wait_at_once_never_exceed_the_window"),
    ),
    "43": Fault(
        "The denominator of a share changes with what another part of the answer found.",
        at(SYNCS, "the_share_has_the_same_denominator_whether_anything_waits_in_the_window_or_not")
        + at(CAUSES, "severity_comes_from_the_share_of_the_window"),
    ),
    "44": Fault(
        "Overlap of communication is subtracted twice, or sums are compared with time on the clock.",
        at(PROMISES, "compute_exposed_comm_copy_only_and_idle_add_up_to_the_span_of_every_device")
        + at(OVERLAP, "overlap_is_counted_once_and_copies_alone_are_neither_compute_nor_idle"),
    ),
    "45": Fault(
        "A share above 100 is cut down to look right, or left out in silence.",
        at("contracts/test_units.py", "a_share_outside_zero_to_hundred_percent_is_refused_however_near")
        + at(INTENSITY, "more_than_the_peak_is_no_answer_and_its_figure_is_named"),
    ),
    "46": Fault(
        "Several findings claim the same time.",
        at(ARITHMETIC, "parts_of_recoverable_time_are_no_more_than_idle_and_exposed_time")
        + at(CAUSES, "recoverable_time_adds_up_to_no_more_than_idle_and_exposed_time"),
    ),
    "47": Fault(
        "Between two thresholds lies a stretch of values for which nothing is said.",
        at("tools/system/test_critical_path.py", "two_parts_within_five_points_are_mixed_and_just_beyond_they_are_not")
        + at(
            "tools/nvtx/test_iteration_timing.py",
            "every_figure_of_every_iteration_is_that_of_the_slow_and_obvious_method",
        )
        + at(CAUSES, "severity_comes_from_the_share_of_the_window"),
    ),
    "48": Fault(
        "A gap that is nothing beside the run is a warning.",
        at(CAUSES, "two_ms_of_a_gap_in_four_seconds_are_no_finding", "severity_comes_from_the_share_of_the_window"),
    ),
    "49": Fault(
        "The profiler's own work is reported as a bottleneck of the program.",
        at(CAUSES, "the_profilers_own_work_is_found_where_it_took_two_fifths_of_the_capture")
        + at("tools/utility/test_doctor.py", "the_overhead_is_the_union_of_nsys_own_work_within_the_capture"),
    ),
    "50": Fault(
        "The time that a kernel stands in the queue is called overhead of its launch.",
        at(ARITHMETIC, "a_kernel_that_waits_in_a_queue_is_no_slow_launch")
        + at(OVERHEAD, "sums_of_launches_and_queues_agree_with_nsys_stats"),
    ),
    "51": Fault(
        "The launch of a graph is counted for each of its kernels, or is not seen at all.",
        at(ARITHMETIC, "one_graph_launch_of_three_nodes_is_one_launch_in_every_skill_that_counts_launches")
        + at(OVERHEAD, "a_graph_launch_counts_once_in_each_row_and_once_in_totals"),
    ),
}

RANGES = {
    "52": Fault(
        "A kernel is put into the range that is open while it runs, not the one that launched it.",
        at("ingest/test_attribution.py", "the_kernel_may_run_long_after_its_range_has_ended")
        + at(KERNEL_MAP, "a_kernel_belongs_to_the_ranges_around_its_launch_however_late_it_runs"),
    ),
    "53": Fault(
        "A capture with ranges of the other style is said to have none, or they are taken for a stack.",
        at(RUN, "start_end_ranges_are_named_where_push_pop_ranges_are_missing")
        + at(LAYERS, "start_end_ranges_alone_are_never_taken_for_a_stack_and_the_abstention_names_them")
        + at(EVENTS, "only_spans_means_no_stacks"),
    ),
    "54": Fault(
        "Which of two equal ranges is the outer one follows from the order of rows in the file.",
        at("ingest/test_nesting.py", "of_twins_the_later_one_is_inside_the_earlier_one")
        + at(LAYOUTS, "twins_in_every_column_are_kept_and_leave_no_trace_of_their_order")
        + at(PROMISES, "the_order_of_rows_in_the_source_changes_no_byte_of_any_result_but_the_captures_name"),
    ),
    "55": Fault(
        "Ranges of a library are left out for speed, and kernels that have no other are lost.",
        at(NVTX, "a_kernel_whose_only_range_is_an_operator_of_a_library_keeps_it"),
    ),
    "56": Fault(
        "Kernels are matched by their times, and those with equal times count twice.",
        at(NVTX, "kernels_with_equal_times_are_each_counted_once"),
    ),
    "57": Fault(
        "A marker is found inside longer names, so that operators become steps.",
        at(NVTX, "a_range_that_only_contains_the_marker_s_word_is_no_iteration")
        + at(ITERATIONS, "a_marker_is_matched_by_its_name_without_the_number_or_by_a_full_name"),
    ),
    "58": Fault(
        "Steps are made up from gaps or from ranges of libraries.",
        at(NVTX, "operators_and_gaps_are_no_iterations")
        + at("tools/measures/test_kernel_sequences.py", "gaps_alone_and_copies_alone_never_make_an_iteration"),
    ),
    "59": Fault(
        "What another thread launches is put into the ranges of the main one, or counted twice.",
        at(NVTX, "work_of_a_thread_without_ranges_is_in_no_range_of_another_thread")
        + at(MFU, "what_other_threads_launch_meanwhile_is_not_counted_but_told"),
    ),
    "60": Fault(
        "Payloads that were left out of the export make an empty answer without a word.",
        at("ingest/test_payloads.py", "an_export_without_payload_data_says_so")
        + at(
            "tools/communication/test_nccl_payload_breakdown.py",
            "it_abstains_and_tells_an_export_without_payloads_from_a_capture_without_them",
        ),
    ),
    "61": Fault(
        "Nested ranges of one name add up to more than all of the work.",
        at(NVTX, "nested_ranges_of_one_name_never_share_more_than_all_of_the_work")
        + at(LAYERS, "a_range_within_one_of_its_name_counts_work_twice_but_its_share_stays_a_share"),
    ),
}

COMMUNICATION_MEMORY_AND_PEAKS = {
    "62": Fault(
        "Anything with nccl in its name is communication, and collectives of other names are compute.",
        at(COMM, "what_is_communication_is_the_same_in_every_skill")
        + at("ingest/test_kernel_names.py", "a_collective_is_known_by_an_anchored_prefix_of_its_own_name"),
    ),
    "63": Fault(
        "A reduce-scatter is counted as a reduce, and a name is taken for proof.",
        at(
            "tools/communication/test_nccl_breakdown.py",
            "reduce_scatter_is_no_reduce_and_protocols_of_one_collective_are_one_row",
        )
        + at(OVERLAP, "that_communication_is_told_by_names_is_said"),
    ),
    "64": Fault(
        "One stray kernel makes a stream one of compute and communication.",
        at(COMM, "one_stray_kernel_on_a_stream_of_collectives_is_no_finding")
        + at(CAUSES, "one_stray_kernel_on_a_stream_of_collectives_does_not_make_it_shared"),
    ),
    "65": Fault(
        "The spread of the times of collectives is shown as that of bandwidth, although they wait for each other.",
        at("tools/communication/test_nccl_communicator_analysis.py", "bandwidths_are_those_of_nccl_tests")
        + at(
            "tools/communication/test_nccl_anomaly.py",
            "the_slow_ones_of_every_group_are_those_of_the_slow_and_obvious_method",
        ),
    ),
    "66": Fault(
        "Throughput below one gigabyte per second is rounded to nothing.",
        at(COMM, "megabytes_are_of_a_million_bytes_and_slow_links_are_not_nought")
        + at(TRANSFERS, "throughput_below_one_gigabyte_per_second_is_not_rounded_to_nothing"),
    ),
    "67": Fault(
        "Units are not told, or copies of other kinds count as copies to the device.",
        at(
            COMM,
            "unified_and_peer_copies_are_no_copies_from_host_to_device",
            "megabytes_are_of_a_million_bytes_and_slow_links_are_not_nought",
        )
        + at(TRANSFERS, "every_copy_kind_has_its_word_and_none_folds_into_host_to_device"),
    ),
    "68": Fault(
        "Weights that are uploaded at the start are called steady traffic.",
        at(H2D, "weights_uploaded_at_the_start_are_init_heavy_and_not_continuous")
        + at(CAUSES, "loading_and_allocation_before_the_first_step_ends_are_no_findings"),
    ),
    "69": Fault(
        "A kernel of which nothing is known is said not to use tensor cores.",
        at(COMM, "a_kernel_of_which_nothing_is_known_is_not_without_tensor_cores")
        + at("tools/kernels/test_tensor_core_usage.py", "shares_by_hand_unused_first_and_unknown_is_not_unused"),
    ),
    "70": Fault(
        "A share of the peak that cannot be is given a verdict.",
        at(
            COMM,
            "flops_that_cannot_be_are_refused_by_every_skill_that_takes_them",
            "a_share_of_the_peak_above_all_of_it_stands_in_no_cell",
        )
        + at(INTENSITY, "an_unknown_gpu_has_no_peak_and_the_skill_says_what_to_give"),
    ),
}

CANNOT_ANSWER = {
    "71": Fault(
        "There are many ways to say that there is no answer, some of which look like success.",
        at(NAMES, "every_skill_has_an_answer_without_any_one_kind_of_event")
        + at(CANNOT, "a_capture_of_one_kind_of_event_is_answered_from_it_or_abstained_on")
        + at("contracts/test_envelope.py", "the_four_ways_to_end_are_all_allowed"),
    ),
    "72": Fault(
        "A missing table shows as the words of the database, or as a row that is an error.",
        at(CANNOT, "a_capture_of_one_kind_of_event_is_answered_from_it_or_abstained_on")
        + at(NAMES, "every_skill_has_an_answer_without_any_one_kind_of_event"),
    ),
    "73": Fault(
        "The row that says why there is no answer is counted as one.",
        at(CANNOT, "an_abstention_has_no_cell_that_could_be_cited_as_a_figure")
        + at("contracts/test_evidence.py", "an_abstention_has_no_cells"),
    ),
    "74": Fault(
        "A part that fails vanishes from the report, which then looks clean.",
        at(CANNOT, "a_part_that_fails_is_listed_by_every_skill_that_is_made_of_others")
        + at(CAUSES, "a_skill_that_fails_is_listed_and_takes_no_other_down"),
    ),
    "75": Fault(
        "An answer is made of parts of which none had one.",
        at(CANNOT, "a_part_that_fails_is_listed_by_every_skill_that_is_made_of_others")
        + at(PROMISES, "a_capture_without_any_event_is_abstained_on_and_not_reported_healthy"),
    ),
    "76": Fault(
        "A comparison with an empty capture is reported as a gain.",
        at("pitfalls/test_registry.py", "no_skill_takes_two_captures")
        + at(PROMISES, "a_capture_without_any_event_is_abstained_on_and_not_reported_healthy"),
        "no skill compares two captures",
    ),
    "77": Fault(
        "Whether two captures may be compared is decided by the build of the profiler.",
        at("pitfalls/test_registry.py", "no_skill_takes_two_captures")
        + at(BAD_INPUT, "a_newer_minor_version_is_read_with_a_warning"),
        "no skill compares two captures; whether one can be read is decided by the version of its schema",
    ),
}

DETERMINISM = {
    "78": Fault(
        "What comes first among equals follows from the order of rows.",
        at(LAYOUTS, "no_capture_depends_on_the_order_of_rows_or_ids")
        + at(PROMISES, "the_order_of_rows_in_the_source_changes_no_byte_of_any_result_but_the_captures_name"),
    ),
    "79": Fault(
        "Two queries over one connection lose rows of each other.",
        at(SAME, "queries_at_once_over_one_profile_each_get_their_own_rows")
        + at("server/test_app.py", "calls_side_by_side_get_their_own_answers"),
    ),
    "80": Fault(
        "A remembered answer is given to another question, or is changed by whoever got it.",
        at(
            SAME,
            "pages_of_different_sizes_and_devices_are_not_mixed_up_whatever_was_asked_before",
            "what_a_caller_does_to_a_result_changes_no_later_one",
        )
        + at("server/test_ledger.py", "what_a_caller_does_to_a_result_does_not_reach_the_ledger"),
    ),
    "81": Fault(
        "A second engine answers otherwise.",
        at("ingest/test_forms.py", "the_demo_gives_the_same_answers_in_every_form_that_is_read_without_nsys")
        + at(SAME, "no_result_depends_on_the_number_of_threads"),
        "there is one engine over one canonical form, from whatever form a capture was read",
    ),
    "82": Fault("A part of the engine is downloaded at its first use.", at(FILES, "nothing_is_fetched_from_anywhere")),
    "83": Fault(
        "The time of day, paths or the order of hashes stand in a result.",
        at(
            SAME,
            "no_result_depends_on_the_seed_of_hashes_the_time_zone_or_the_process",
            "no_skill_looks_at_a_clock_at_chance_or_at_an_object_s_address",
            "no_result_holds_the_path_of_the_capture_or_of_the_cache",
        )
        + at(LAYOUTS, "a_captures_file_name_and_cache_leave_no_trace"),
    ),
}

FILES_AND_CACHE = {
    "84": Fault(
        "Reading a capture writes into it or beside it.",
        at(FILES, "no_skill_changes_or_leaves_anything_where_the_capture_lies")
        + at(BAD_INPUT, "nothing_beside_a_capture_changes_when_it_is_read"),
    ),
    "85": Fault(
        "A path without a file makes an empty database.",
        at(FILES, "a_path_without_a_file_makes_none") + at(BAD_INPUT, "a_path_without_a_file_is_not_found"),
    ),
    "86": Fault(
        "A cache that is out of date, empty or damaged is answered from.",
        at(
            CACHE,
            "a_changed_capture_is_ingested_again_also_with_the_size_and_time_of_before",
            "one_changed_bit_anywhere_in_a_profile_is_found_and_the_profile_made_again",
        )
        + at("ingest/test_cache_limits.py", "a_cache_that_may_only_be_read_gives_what_it_has"),
    ),
    "87": Fault(
        "A capture that was cut short is said to hold nothing.",
        at(FILES, "a_capture_cut_anywhere_is_damaged_for_every_skill_and_never_answered_from")
        + at(BAD_INPUT, "a_capture_that_was_cut_short_is_corrupt", "a_capture_with_damage_inside_is_corrupt"),
    ),
    "88": Fault(
        "Half an export, or one with an unreadable file in it, is taken for a whole one.",
        at(BAD_INPUT, "a_damaged_file_of_a_parquet_export_is_named")
        + at(BAD_INPUT, "a_parquet_export_without_its_strings_is_not_whole")
        + at("ingest/test_nsys_export.py", "half_a_directory_is_told_from_a_whole_one"),
    ),
    "89": Fault(
        "Finding the ranges around launches takes minutes, or all memory, where there are millions.",
        at(FILES, "a_million_ranges_nest_in_linear_space_and_in_seconds")
        + at(ITERATIONS, "no_query_grows_with_the_number_of_markers_that_do_not_qualify"),
    ),
    "90": Fault(
        "A handle of the database is shared by threads, or work cannot be stopped from outside.",
        at("server/test_calls.py", "cancelling_a_call_stops_its_query_before_the_cancellation_goes_on")
        + at("ingest/test_interrupt.py", "a_running_query_is_stopped_with_the_code")
        + at("ingest/test_concurrent_ingest.py", "many_threads_and_libraries_at_once_share_one_ingest"),
    ),
    "91": Fault(
        "An answer is too large to read, with what matters at its end.",
        at(FILES, "no_default_result_floods_the_reader_however_many_kernels_there_are")
        + at("server/test_costs.py", "a_default_result_is_small"),
    ),
    "92": Fault(
        "Names from the file become a part of statements.",
        at(NAMES, "a_table_with_a_name_that_is_no_identifier_is_data"),
    ),
}

REPORTS = {
    "N2": Fault(
        "The version of the schema is ignored.",
        at(
            BAD_INPUT,
            "an_export_schema_of_another_major_version_is_refused",
            "a_newer_minor_version_is_read_with_a_warning",
        ),
    ),
    "N3": Fault(
        "A capture of one GPU without communication breaks the analysis.",
        at(
            "tools/communication/test_nccl_breakdown.py",
            "kernels_without_collectives_are_found_to_be_nothing_and_that_is_said",
        )
        + at(OVERLAP, "without_communication_its_overlap_is_unknown_and_not_zero_percent"),
    ),
    "N4": Fault(
        "A kind of event that is optional is required.",
        at(NAMES, "every_skill_has_an_answer_without_any_one_kind_of_event"),
    ),
    "N5": Fault(
        "Collectives of the newer names are not known, and shares of nothing are no numbers.",
        at(COMM, "what_is_communication_is_the_same_in_every_skill")
        + at(OVERLAP, "without_communication_its_overlap_is_unknown_and_not_zero_percent")
        + at("contracts/test_wire.py", "json_refuses_what_is_no_number"),
    ),
    "N6": Fault(
        "Waiting is counted as compute.",
        at(SYNCS, "waiting_of_the_gpu_and_queries_are_no_cost_of_the_host")
        + at(OVERLAP, "every_figure_of_every_device_is_that_of_the_slow_and_obvious_method"),
    ),
    "N8": Fault(
        "Kernels without a recorded call are dropped.",
        at(EVENTS, "kernels_without_an_api_call_are_kept_and_counted")
        + at(OVERHEAD, "a_kernel_without_a_recorded_call_is_no_launch_and_is_counted_as_unmatched"),
    ),
    "N10": Fault(
        "The name of a kernel is taken for proof of the collective.",
        at(OVERLAP, "that_communication_is_told_by_names_is_said")
        + at(COMM, "what_is_communication_is_the_same_in_every_skill"),
    ),
    "N11": Fault(
        "Correlation ids of several processes are mixed up.",
        at("ingest/test_launches.py", "equal_correlation_ids_of_two_processes_do_not_meet")
        + at(IDENTITY, "processes_that_share_all_ids_but_their_own_change_no_figure_of_a_device"),
    ),
    "N12": Fault(
        "A capture of the CPU alone is reported with zeros for the GPU.",
        at(CANNOT, "idle_time_is_not_told_from_host_events_alone"),
    ),
    "N13": Fault(
        "The innermost name is not enough to tell two places in the program apart.",
        at("ingest/test_attribution.py", "equal_names_under_different_parents_are_different_paths"),
    ),
    "N14": Fault(
        "A part of the report that fails is shown as zero.",
        at(CANNOT, "a_part_that_fails_is_listed_by_every_skill_that_is_made_of_others"),
    ),
    "N15": Fault(
        "An empty capture fails late.",
        at(PROMISES, "a_capture_without_any_event_is_abstained_on_and_not_reported_healthy")
        + at(EVENTS, "a_capture_without_any_event_is_an_empty_profile"),
    ),
    "N16": Fault(
        "A kernel outside all ranges breaks the mapping.",
        at(NVTX, "a_kernel_outside_every_range_is_counted_as_such_and_breaks_nothing"),
    ),
    "N17": Fault(
        "Processes without kernels are reported as idle.",
        at(CANNOT, "a_process_without_kernels_is_no_idle_device"),
    ),
    "N18": Fault(
        "That there are calls but no kernels is not told.",
        at(CANNOT, "host_calls_without_kernels_are_said_to_be_there") + at(EVENTS, "calls_without_kernels_are_said"),
    ),
    "N19": Fault(
        "Graphs that are traced as a whole hide kernels without a word.",
        at(EVENTS, "a_graph_traced_as_a_whole_is_compute_with_its_kernels_hidden")
        + at(OVERLAP, "a_whole_graph_counts_as_compute_and_makes_the_answer_partial"),
    ),
    "N20": Fault(
        "A file that cannot be read is said to need nothing.",
        at(FILES, "a_capture_cut_anywhere_is_damaged_for_every_skill_and_never_answered_from"),
    ),
    "N21": Fault(
        "The same capture stored otherwise is not read.",
        at("ingest/test_forms.py", "any_capture_is_the_same_profile_as_a_parquet_export_of_it"),
    ),
    "N22": Fault(
        "Reading a file with a journal makes files beside it, or fails where none can be made.",
        at(BAD_INPUT, "nothing_beside_a_capture_changes_when_it_is_read"),
    ),
    "N23": Fault(
        "What lies in a live journal is passed over in silence.",
        at(
            BAD_INPUT,
            "a_capture_that_is_being_written_is_in_use",
            "changes_beside_a_capture_that_is_known_already_are_seen_too",
        ),
    ),
    "N24": Fault(
        "Times of captures with different clocks are compared.",
        at("pitfalls/test_registry.py", "no_skill_takes_two_captures"),
        "no skill reads two captures",
    ),
    "N25": Fault(
        "Processes that each see device 0 are taken for one device.",
        at(
            DEVICES,
            "without_a_map_the_same_device_id_of_two_processes_is_two_devices",
            "mapped_to_different_gpus_the_same_device_id_is_two_devices_with_their_own_names",
        ),
    ),
    "N26": Fault(
        "Which process is which rank changes with the window or the order of events.",
        at(
            "tools/communication/test_nccl_communicator_analysis.py",
            "every_figure_is_that_of_the_slow_and_obvious_method",
        )
        + at(LAYOUTS, "no_capture_depends_on_the_order_of_rows_or_ids"),
    ),
}

FAULTS: dict[str, Fault] = {
    **SCHEMA_AND_NAMES,
    **IDENTITIES,
    **TIME_WINDOWS,
    **INTERVALS,
    **RANGES,
    **COMMUNICATION_MEMORY_AND_PEAKS,
    **CANNOT_ANSWER,
    **DETERMINISM,
    **FILES_AND_CACHE,
    **REPORTS,
}
"""Every fault by its number."""
