"""The reference's tests of language-model wrappers, and the defects found in it, with the tests here.

Rows of the reference's tests begin with the file: W test_wrapper, D test_data, C test_conversions, L
TestLLMMaskedCategorical. Rows of defects begin with "defect". Below each row are the tests, by their path
below tests/, or "none:" and the reason; notes are in parentheses. The tests of this file read the table.

row
    | tests or reason

# Parameters
W test_legacy_parameter_names, test_parameter_conflict_resolution
    | models/generation/test_options.py::test_legacy_names_win
W test_parameter_validation
    | models/generation/test_options.py::test_checks
    | parity/test_wrapper_arguments.py::test_the_same_messages
W test_standardized_generation_parameters
    | models/generation/test_options.py::test_defaults_of_the_model_fill_in
    | models/generation/test_options.py::test_a_configuration_can_be_changed

# Modes
W test_history_input_mode
    | parity/test_onnx_wrapper.py::test_generation
    | parity/test_onnx_wrapper.py::test_scoring
    | parity/test_onnx_wrapper.py::test_single_rows
    | models/wrapper/test_onnx_wrapper.py::test_history_generation
    | models/wrapper/test_onnx_wrapper.py::test_history_scoring
W test_single_history_item_unsqueeze
    | models/wrapper/test_input.py::test_a_history_without_turn_dimension
    | models/text/test_data.py::test_chat_history_adds_the_turn_dimension
W test_text_input_mode, test_tokens_input_mode
    | parity/test_onnx_wrapper.py::test_generation
    | parity/test_onnx_wrapper.py::test_scoring
    | parity/test_onnx_wrapper.py::test_single_rows
    | models/wrapper/test_input.py::test_masks_in_tokens_mode
W check_output_shapes
    | models/wrapper/test_onnx_wrapper.py::test_padded_vectors
    | models/wrapper/test_onnx_wrapper.py::test_unpadded_vectors
    | models/wrapper/test_onnx_wrapper.py::test_scoring_vectors

# Errors
W test_invalid_input_mode, test_generate_false_without_log_probs
    | parity/test_wrapper_arguments.py::test_the_same_messages
    | models/wrapper/test_options.py::test_constructor_errors
W test_missing_input_key, test_invalid_history_type
    | models/wrapper/test_input.py::test_input_errors_change_nothing
    | models/wrapper/test_input.py::test_entries_in_another_form_name_the_right_one

# Batch, keys, structure
W test_batch_sizes
    | models/wrapper/test_onnx_wrapper.py::test_batched_equals_alone
    | models/wrapper/test_output.py::test_any_number_of_dimensions
    | models/wrapper/test_output.py::test_empty_batches
W test_custom_input_key, test_selective_outputs
    | models/wrapper/test_output.py::test_keys
W test_log_probs_only_mode
    | models/wrapper/test_onnx_wrapper.py::test_scoring_vectors
    | parity/test_onnx_wrapper.py::test_scoring
W test_tensorclass_structure
    | models/text/test_data.py::test_fields_are_optional
W test_unpadded_output_with_as_list
    | models/text/test_data.py::test_ragged_access
    | models/wrapper/test_onnx_wrapper.py::test_unpadded_vectors
W test_num_samples
    | models/wrapper/test_output.py::test_num_samples
    | models/wrapper/test_output.py::test_one_sample_still_gets_a_dimension

# KL transforms
W test_retrieve_log_prob_input_modes
    | parity/test_kl.py::test_log_probs
    | models/wrapper/test_kl.py::test_log_probs_of_a_model
    | models/wrapper/test_kl.py::test_under_next_and_at_another_key
W test_retrieve_kl_input_modes
    | parity/test_kl.py::test_kl
    | models/wrapper/test_kl.py::test_the_kl_of_two_models
W test_retrieve_log_prob_assistant_only_validation, test_retrieve_kl_assistant_only_validation
    | parity/test_kl.py::test_the_same_messages
    | models/wrapper/test_kl.py::test_retrieve_log_prob_errors
    | models/wrapper/test_kl.py::test_retrieve_kl_errors
W test_retrieve_kl_pad_output_consistency
    | parity/test_kl.py::test_the_same_messages
    | models/wrapper/test_kl.py::test_retrieve_kl_errors
W test_kl_computation_transform
    | parity/test_kl.py::test_kl
    | parity/test_kl.py::test_the_same_messages_of_log_probs
    | parity/test_kl.py::test_samples_that_differ_in_number
    | models/wrapper/test_kl.py::test_kl_of_dense_rows
    | models/wrapper/test_kl.py::test_kl_of_ragged_rows

# Backends and distributions
W test_log_probs_consistency
    | models/wrapper/test_onnx_wrapper_exports.py::test_scores_equal_the_log_probs_of_generation
    | (there is one backend; its two ways to log-probs agree to 1e-4)
W test_sync_async_vllm_strict_equivalence
    | none: it compares two forms of vLLM
W test_transformers_distribution_methods
    | parity/test_wrapper_arguments.py::test_distributions
    | models/wrapper/test_distributions.py::test_prompt_mask
    | models/wrapper/test_distributions.py::test_assistant_mask
    | models/wrapper/test_distributions.py::test_attention_and_custom_masks
W test_transformers_custom_masking
    | models/wrapper/test_distributions.py::test_attention_and_custom_masks
W test_vllm_distribution_methods
    | models/wrapper/test_distributions.py::test_generating_wrappers_have_no_distributions
    | (where there are no logits)
L TestLLMMaskedCategorical
    | nn/distributions/discrete/test_llm_masked_categorical.py::test_a_mask_of_positions
    | nn/distributions/discrete/test_llm_masked_categorical.py::test_a_mask_of_tokens
    | nn/distributions/discrete/test_llm_masked_categorical.py::test_samples_respect_a_mask_of_tokens
    | nn/distributions/discrete/test_llm_masked_categorical.py::test_ignore_index
    | nn/distributions/discrete/test_llm_masked_categorical.py::test_cache
    | nn/distributions/discrete/test_llm_masked_categorical.py::test_large_vocabulary
    | nn/distributions/discrete/test_llm_masked_categorical.py::test_masked_errors

# Packing and batching
W test_packing_history, _text, _tokens
    | models/wrapper/test_onnx_wrapper_options.py::test_pad_model_input_changes_no_score
W test_batching
    | models/wrapper/test_onnx_wrapper_batching.py::test_two_threads_share_a_run
W test_batching_uneven
    | models/wrapper/test_onnx_wrapper_batching.py::test_uneven_callers_get_their_own
W test_batching_cleanup
    | models/wrapper/test_onnx_wrapper_batching.py::test_state_and_cleanup
W test_batching_min_batch_size_one_immediate_processing
    | models/generation/test_batching.py::test_rows_that_come_during_a_run_share_the_next
W test_batching_configuration_validation
    | parity/test_wrapper_arguments.py::test_the_same_batching_state
    | models/wrapper/test_onnx_wrapper_batching.py::test_constructor_checks_sizes
W test_batching_null_dimension
    | models/wrapper/test_onnx_wrapper_batching.py::test_one_element_and_more_dimensions
W test_ray_wrapper, test_actor_sharing
    | models/wrapper/test_onnx_wrapper_copies.py::test_other_processes
    | (a wrapper goes to other processes by itself)

# prefer_tokens
W test_transformers_wrapper_prefer_tokens_explicit, _false
    | models/wrapper/test_input_preferred_tokens.py::test_tokens_are_used_only_if_preferred
W test_transformers_wrapper_prefer_tokens_with_chatenv
    | models/wrapper/test_input.py::test_prefer_tokens
W test_get_new_version_preserves_prefer_tokens
    | models/wrapper/test_versions.py::test_prefer_tokens_is_carried
W test_multi_turn_conversation_with_tokens, test_token_prefix_stays_consistent
    | models/wrapper/test_input_preferred_tokens.py::test_tokens_of_a_conversation_stay_a_prefix
W test_completion_output_to_tc, test_request_output_post_init, test_from_request_output
    | none: these are classes of vLLM
W AsyncVLLM, TestTRLInterop
    | none: servers of vLLM, and adapters of another library's data sets

# History
D test_history_construct, _construct_ndim
    | models/text/test_history.py::test_append
    | models/text/test_history.py::test_extend
    | parity/test_history.py::test_append_and_extend
D test_history_template, _template_recover
    | parity/test_history.py::test_rendering
    | parity/test_history.py::test_parsing
    | models/text/test_history.py::test_round_trip
D test_history_spec
    | models/text/test_specs.py::test_history
    | parity/test_specs.py::test_history_round_trip
D test_content_base
    | models/text/test_history.py::test_content_parts
D test_history_assistant_mask_qwen, _llama
    | parity/test_history.py::test_tokens_and_masks
    | models/text/test_chat.py::test_masked_tokens_decode_to_what_the_assistant_said
D test_history_completion
    | models/text/test_history.py::test_whether_turns_are_complete_is_said_for_each
    | models/text/test_history.py::test_truncated_text_is_incomplete
D test_assistant_mask_model_families, _with_custom_templates
    | models/text/test_builtin_templates.py::test_built_in_masks_cover_what_the_assistant_wrote
    | models/text/test_assistant_spans.py::test_answers_that_occur_in_the_template
D test_custom_template_equivalence
    | parity/test_chat_template.py::test_built_ins_render_as_torchrl
    | parity/test_template_variables.py::test_renders_as_transformers
D test_add_chat_template_parameters_used
    | models/text/test_parsers.py::test_registered_parsers
    | models/text/test_builtin_templates.py::test_choice_of_template
D test_history_round_trip, _round_trip_incomplete
    | models/text/test_history.py::test_round_trip
    | models/text/test_history.py::test_truncated_text_is_incomplete
D test_extract_responses_from_full_histories_batch_issue
    | models/text/test_chat.py::test_placeholder_turns_are_not_rendered
    | models/text/test_history.py::test_from_chats_shapes

# Conversions
C TestChatHistoryConversions
    | parity/test_conversions.py::test_from_histories
    | parity/test_conversions.py::test_objects_without_a_batch_that_hold_one
    | models/text/test_data_conversions.py::test_a_batch_in_a_history_without_one
C TestTokensConversions
    | parity/test_conversions.py::test_tokens_to_text
    | parity/test_conversions.py::test_to_histories
C TestTextConversions
    | parity/test_conversions.py::test_text_to_tokens
    | parity/test_conversions.py::test_to_histories
    | parity/test_conversions.py::test_responses_without_their_prompt
C TestBijectivity
    | models/text/test_data.py::test_bijection
C TestBatchDimensions
    | models/text/test_data.py::test_bijection
    | models/text/test_data_conversions.py::test_a_stack_of_such_histories

# Defects of the reference
defect 1: the first log-prob of a response is 0
    | models/wrapper/test_onnx_wrapper.py::test_text_and_log_probs
    | models/wrapper/test_onnx_wrapper_options.py::test_the_first_log_prob_can_be_zero
    | parity/test_onnx_wrapper.py::test_log_probs_of_the_reference_on_request
defect 2: log-probs at padding are not 0
    | models/wrapper/test_onnx_wrapper.py::test_text_and_log_probs
defect 3: padded histories have pad text, and responses cut wrong
    | models/wrapper/test_onnx_wrapper.py::test_history_generation
defect 4: a default system turn shifts the response
    | models/wrapper/test_onnx_wrapper.py::test_history_generation
defect 5: an end that is the pad token is lost
    | models/wrapper/test_onnx_wrapper.py::test_pad_that_is_also_end
defect 6: the pad id is that of a begin token
    | models/wrapper/test_onnx_wrapper.py::test_padded_vectors
    | models/wrapper/test_onnx_wrapper.py::test_what_pads_is_not_the_begin_token_that_the_tokenizer_adds
defect 7: the mask of the prompt is ignored
    | models/wrapper/test_input.py::test_masks_in_tokens_mode
    | models/wrapper/test_onnx_wrapper.py::test_pad_that_is_also_end
defect 8: the model does not know what to pad with
    | models/wrapper/test_onnx_wrapper.py::test_padded_vectors
defect 9: scoring has no positions
    | models/wrapper/test_onnx_wrapper_exports.py::test_scoring_does_not_depend_on_the_batch
defect 10: logits and distributions fail with inplace=False
    | models/wrapper/test_onnx_wrapper_options.py::test_logits_only
    | models/wrapper/test_distributions.py::test_get_dist_of_ragged_rows
defect 11: a hole in a mask
    | models/wrapper/test_input.py::test_masks_in_tokens_mode
    | models/text/test_rows.py::test_spread_follows_the_mask
defect 12: a stale mask is taken for the prompt's
    | models/wrapper/test_input.py::test_a_stale_mask_is_not_the_prompts
defect 13: samples and updates in place with several dimensions
    | models/wrapper/test_output.py::test_any_number_of_dimensions
    | models/wrapper/test_output.py::test_inplace_of_more_dimensions
defect 14: unknown options are dropped in silence
    | models/wrapper/test_onnx_wrapper_options.py::test_unknown_generation_options_warn
defect 15: beams crash with log-probs
    | models/generation/test_beams.py::test_log_probs_and_score
    | models/generation/test_beams.py::test_wide_beams_find_the_most_probable_response
defect 16: options of a call are lost
    | models/wrapper/test_onnx_wrapper_options.py::test_call_options
defect 17: keys that are written into the code
    | models/wrapper/test_output.py::test_keys
    | models/wrapper/test_input.py::test_masks_in_tokens_mode
    | models/wrapper/test_distributions.py::test_prompt_mask_at_configured_keys
defect 18: the default mask of get_dist, and logits taken for probabilities
    | models/wrapper/test_distributions.py::test_padding_of_get_dist
    | models/wrapper/test_distributions.py::test_get_dist_without_padding
defect 19: log_prob fails
    | models/wrapper/test_distributions.py::test_log_prob
defect 20: a largest batch alone fails
    | models/generation/test_batching.py::test_sizes
defect 21: the timeout has no effect
    | models/generation/test_batching.py::test_a_lone_row_is_run_after_the_timeout
defect 22: options of callers are mixed
    | models/generation/test_batching.py::test_only_equal_tasks_share_a_run
    | models/wrapper/test_onnx_wrapper_batching.py::test_options_of_a_call_are_its_own
defect 23: a failure blocks the queue
    | models/generation/test_batching.py::test_a_failure_is_that_of_its_run_only
    | models/generation/test_batching.py::test_rows_of_a_failed_call_are_not_run
defect 24: flushing deadlocks
    | models/generation/test_batching.py::test_flush_runs_what_waits
    | models/generation/test_batching.py::test_flush_during_a_run
defect 25: get_new_version carries what was settled and drops the rest
    | models/wrapper/test_versions.py::test_every_argument_is_carried
    | models/wrapper/test_versions.py::test_changed_generate_or_mode_reads_another_entry
defect 26: preferred tokens of ragged rows
    | models/wrapper/test_input.py::test_prefer_tokens
    | models/wrapper/test_input_preferred_tokens.py::test_preferred_tokens_with_a_mask
defect 27: packed rows see the future and each other
    | models/wrapper/test_onnx_wrapper_options.py::test_pad_model_input_changes_no_score
defect 28: parsed tool calls are written twice
    | models/text/test_history.py::test_parsed_tool_calls_are_rendered_once
    | models/text/test_parsers.py::test_tool_turns_survive_the_round_trip
defect 29: formats that cannot be parsed
    | models/text/test_parsers.py::test_parsers_invert_the_templates
"""

from __future__ import annotations

from collections import Counter

import pytest
from helpers.checklists import check_row, table

CHECKLIST = table(__doc__)
# Rows by kind, so that none is lost unseen.
ROWS = {"W": 39, "L": 1, "D": 11, "C": 5, "defect": 29}


def test_no_row_is_missing() -> None:
    assert Counter(row.split()[0] for row in CHECKLIST) == ROWS
    defects = [int(row.split()[1].rstrip(":")) for row in CHECKLIST if row.startswith("defect")]
    assert defects == list(range(1, 30))


@pytest.mark.parametrize("row", CHECKLIST)
def test_every_row_has_tests_that_are_there_or_a_reason(row: str) -> None:
    check_row(row, CHECKLIST[row])
